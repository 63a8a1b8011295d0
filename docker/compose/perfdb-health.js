// Healthy means: the replica set exists (made on the first look) and this member takes writes.
db.getSiblingDB("admin").auth(process.env.MONGO_INITDB_ROOT_USERNAME, process.env.MONGO_INITDB_ROOT_PASSWORD);
try {
  rs.status();
} catch (error) {
  if (error.codeName !== "NotYetInitialized") throw error;
  rs.initiate({_id: "inferbench", members: [{_id: 0, host: "perfdb:27017"}]});
}
if (!db.hello().isWritablePrimary) quit(1);
