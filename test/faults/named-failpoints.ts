/**
 * Node loads this module into a gateway's process: it records which methods of its classes are called and makes a chosen one
 * throw, once. On SIGUSR2 it reads FAILPOINT_FILE: if the file is empty, it writes the names of all methods that were called
 * to `<file>.seen`; if it has a name, that method throws at its next call and writes its name to `<file>.met`.
 */
import { globSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const SOURCE = resolve(import.meta.dirname, '../../src');
/** The folders of code through which calls and server events pass. */
const ROOMS = '{http,downstream,gateway,upstream,registry,store,catalog}';
/** Files that run a program or tests when they are imported. */
const PROGRAM = /-program\.ts$|\.test\.ts$|\.contract\.ts$/;

const file = process.env['FAILPOINT_FILE'] ?? '';
const seen = new Set<string>();
let armed = '';

function wrap(place: string, original: (...args: unknown[]) => unknown): (...args: unknown[]) => unknown {
  return function (this: unknown, ...args: unknown[]): unknown {
    seen.add(place);
    if (armed === place) {
      armed = '';
      writeFileSync(`${file}.met`, place);
      throw new Error(`planted defect in ${place}`);
    }
    return original.apply(this, args);
  };
}

if (file !== '') {
  for (const path of globSync(`${ROOMS}/**/*.ts`, { cwd: SOURCE })) {
    if (PROGRAM.test(path)) continue;
    const exported = (await import(pathToFileURL(join(SOURCE, path)).href)) as Record<string, unknown>;
    for (const [name, value] of Object.entries(exported)) {
      if (typeof value !== 'function' || value.prototype === undefined) continue;
      const members = Object.getOwnPropertyDescriptors(value.prototype) as Record<string, PropertyDescriptor>;
      for (const [member, descriptor] of Object.entries(members)) {
        if (member === 'constructor' || typeof descriptor.value !== 'function') continue;
        const method = wrap(`${basename(path, '.ts')} ${name}.${member}`, descriptor.value);
        Object.defineProperty(value.prototype, member, { ...descriptor, value: method });
      }
    }
  }
  process.on('SIGUSR2', () => {
    const wanted = readFileSync(file, 'utf8').trim();
    if (wanted === '') {
      writeFileSync(`${file}.part`, [...seen].sort().join('\n'));
      renameSync(`${file}.part`, `${file}.seen`);
    } else {
      armed = wanted;
      writeFileSync(`${file}.armed`, wanted);
    }
  });
}
