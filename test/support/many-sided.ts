import { resolve } from 'node:path';

export const MANY_SIDED = resolve(import.meta.dirname, '../fixtures/stdio/many-sided.mjs');

/** The definition of a server of many sides (see the fixture) under this name. */
export function manySided(name: string, env: Readonly<Record<string, string>> = {}, keys: object = {}): object {
  return {
    command: process.execPath,
    args: [MANY_SIDED],
    env: { NAME: name, ...env },
    ...keys,
  };
}
