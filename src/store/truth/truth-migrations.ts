import type { DatabaseSync } from 'node:sqlite';

/**
 * The shape of `truth.db`, step by step: step n makes version n + 1 of what version n left. A step that was released is
 * never changed; a new shape is a new step at the end. A new concern needs none: it takes a collection of its own.
 */
export const MIGRATIONS: readonly string[] = [
  // `whole` says what all records together are, so that a record that vanished is noticed as one that changed is.
  `CREATE TABLE records (collection TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, revision INTEGER NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY (collection, key)) WITHOUT ROWID;
   CREATE TABLE whole (id INTEGER PRIMARY KEY CHECK (id = 1), revision INTEGER NOT NULL, count INTEGER NOT NULL, tally INTEGER NOT NULL, sum INTEGER NOT NULL);
   INSERT INTO whole VALUES (1, 0, 0, 0, ${2_877_003_366});`,
];

/** Brings the file to the newest version, in one transaction. Throws where it is of a version that is not known here. */
export function migrate(db: DatabaseSync): void {
  const version = versionOf(db);
  if (version > MIGRATIONS.length) {
    throw new UnknownVersion(`it has version ${version}; this Trunkline knows up to ${MIGRATIONS.length}`);
  }
  if (version === MIGRATIONS.length) return;
  db.exec('BEGIN IMMEDIATE');
  try {
    // Another process may have been faster.
    for (const step of MIGRATIONS.slice(versionOf(db))) db.exec(step);
    db.exec(`PRAGMA user_version = ${MIGRATIONS.length}; COMMIT`);
  } catch (error) {
    if (db.isTransaction) db.exec('ROLLBACK');
    throw error;
  }
}

export function versionOf(db: DatabaseSync): number {
  return (db.prepare('PRAGMA user_version').get() as { user_version: number }).user_version;
}

export class UnknownVersion extends Error {}
