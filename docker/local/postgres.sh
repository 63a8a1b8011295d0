#!/bin/bash
# What docker-compose.yaml needs of the postgres image's start: a cluster with a user, a password and a database.
set -euo pipefail
as_postgres=(setpriv --reuid=postgres --regid=postgres --init-groups)
chown postgres:postgres /var/lib/postgresql/data
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  umask 077
  printf '%s' "$POSTGRES_PASSWORD" > /tmp/password
  chown postgres /tmp/password
  "${as_postgres[@]}" initdb --auth-host=scram-sha-256 --auth-local=trust --username "$POSTGRES_USER" --pwfile /tmp/password
  rm /tmp/password
  echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
  printf 'CREATE DATABASE %s' "$POSTGRES_DB" | "${as_postgres[@]}" postgres --single postgres
fi
exec "${as_postgres[@]}" postgres -c listen_addresses='*'
