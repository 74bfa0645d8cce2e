import { existsSync, renameSync } from 'node:fs';

/** Renames a damaged database and returns the new name, which was free, so that it overwrites no earlier one. */
export function setAside(path: string, wall: number): string {
  let at = Math.round(wall);
  while (existsSync(`${path}.corrupt-${at}`)) at++;
  const aside = `${path}.corrupt-${at}`;
  // First the files that SQLite keeps beside it: SQLite would apply them to another file of the same name.
  for (const suffix of ['-journal', '-wal', '-shm', '']) {
    if (existsSync(path + suffix)) renameSync(path + suffix, aside + suffix);
  }
  return aside;
}
