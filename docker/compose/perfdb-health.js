// Healthy means: the replica set exists (made on the first look), this member takes writes, and each role has its user.
// The root user is for this alone: no service has its password.
db.getSiblingDB("admin").auth(process.env.MONGO_INITDB_ROOT_USERNAME, process.env.MONGO_INITDB_ROOT_PASSWORD);
try {
  rs.status();
} catch (error) {
  if (error.codeName !== "NotYetInitialized") throw error;
  rs.initiate({_id: "inferbench", members: [{_id: 0, host: "perfdb:27017"}]});
}
if (!db.hello().isWritablePrimary) quit(1);
const admin = db.getSiblingDB("admin");
// The gateway makes users of the one database, for workers of other hosts; by such a one its holder reads and writes it.
const users = {reader: ["read"], writer: ["readWrite"], admin: ["readWrite", "dbAdmin"], gateway: ["userAdmin"]};
// How the server is, its operations and its log: of those who show or judge it. The gateway, which hosts outside reach, is
// none of them.
const monitor = {role: "clusterMonitor", db: "admin"};
for (const [user, rights] of Object.entries(users)) {
  const roles = rights.map((role) => ({role, db: "inferbench"})).concat(user === "gateway" ? [] : [monitor]);
  const known = admin.getUser(user);
  if (!known) admin.createUser({user, pwd: process.env[`PERFDB_${user.toUpperCase()}_PASSWORD`], roles});
  // A deployment from before gave it that right.
  else if (user === "gateway" && known.roles.some(({role}) => role === monitor.role)) admin.revokeRolesFromUser(user, [monitor]);
}
