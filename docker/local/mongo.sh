#!/bin/bash
# What docker-compose.yaml needs of the mongo image's start: data that belong to its user, a root user at the first start.
set -euo pipefail
as_mongodb=(setpriv --reuid=mongodb --regid=mongodb --init-groups)
chown mongodb:mongodb /data/db /data/configdb
if [ ! -e /data/db/.user-made ]; then
  "${as_mongodb[@]}" mongod --dbpath /data/db --bind_ip 127.0.0.1 --fork --logpath /tmp/first.log
  mongosh --quiet admin --eval '
    db.createUser({user: process.env.MONGO_INITDB_ROOT_USERNAME, pwd: process.env.MONGO_INITDB_ROOT_PASSWORD, roles: ["root"]})'
  "${as_mongodb[@]}" mongod --dbpath /data/db --shutdown
  touch /data/db/.user-made
fi
exec "${as_mongodb[@]}" "$@"
