/**
 * Loaded into a gateway's process by Node itself: counts which methods of its classes are called and makes a chosen one
 * throw, once. On SIGUSR2 it reads what to do from FAILPOINT_FILE: nothing there, and it writes the names of all methods
 * that were called into `<file>.seen`; a name, and that method throws at its next call, which is told in `<file>.met`.
 */
import { globSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const SOURCE = resolve(import.meta.dirname, '../../src');
/** Where calls and the events of servers pass. */
const ROOMS = '{http,downstream,gateway,upstream,registry,store,catalog}';
/** What runs when it is imported. */
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
