#!/bin/bash
# The key file that a replica set with authentication needs, from the environment; then MongoDB as its image starts it.
set -euo pipefail
umask 077
printf '%s' "$PERFDB_KEY" > /data/configdb/key
chown mongodb:mongodb /data/configdb/key
exec docker-entrypoint.sh mongod --replSet inferbench --keyFile /data/configdb/key --bind_ip_all --wiredTigerCacheSizeGB 1
