/**
 * Names under `.test` as a test wants them, for the process this is loaded into: what the system's look-up says of them
 * stands in the file STUB_NAMES, and every question is added to STUB_NAMES.asked. A name that is not in it does not exist.
 */
import dns from 'node:dns';
import { appendFileSync, readFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

type Answer = (error: NodeJS.ErrnoException | null, addresses: dns.LookupAddress[]) => void;

const file = process.env['STUB_NAMES']!;
const system = dns.lookup;

function stub(name: string, options: dns.LookupAllOptions, answer: Answer): void {
  if (!name.endsWith('.test')) {
    system(name, options, answer);
    return;
  }
  appendFileSync(`${file}.asked`, `${name}\n`);
  const known = (JSON.parse(readFileSync(file, 'utf8')) as Record<string, string | null>)[name];
  // Null: the name server does not answer, and neither does the look-up.
  if (known === null) return;
  const unknown = Object.assign(new Error(`getaddrinfo ENOTFOUND ${name}`), { code: 'ENOTFOUND' });
  setImmediate(() => (known === undefined ? answer(unknown, []) : answer(null, [{ address: known, family: 4 }])));
}

dns.lookup = stub as typeof dns.lookup;
syncBuiltinESMExports();
