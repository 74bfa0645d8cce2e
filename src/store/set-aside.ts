import { existsSync, renameSync } from 'node:fs';

/** Renames a damaged database, and returns the new name: one that is free, so that no earlier one is lost. */
export function setAside(path: string, wall: number): string {
  let at = Math.round(wall);
  while (existsSync(`${path}.corrupt-${at}`)) at++;
  const aside = `${path}.corrupt-${at}`;
  // What SQLite keeps beside it first: with another file of the same name it would be taken for that one's.
  for (const suffix of ['-journal', '-wal', '-shm', '']) {
    if (existsSync(path + suffix)) renameSync(path + suffix, aside + suffix);
  }
  return aside;
}
