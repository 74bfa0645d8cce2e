/**
 * Answers for names under `.test`, for the process that loads this file. The file STUB_NAMES maps such a name to an
 * address, or to null for a name server that does not answer; each question is added to STUB_NAMES.asked. The real
 * `dns.lookup` makes every answer, so that its form is Node's own: a mapped name is looked up as its address, and a name
 * that the file lacks is looked up as it is. No name under `.test` exists (RFC 6761).
 */
import dns from 'node:dns';
import { appendFileSync, readFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

type Answer = (error: NodeJS.ErrnoException | null, addresses: dns.LookupAddress[]) => void;

const file = process.env['STUB_NAMES']!;
const system = dns.lookup;

function redirected(name: string, options: dns.LookupAllOptions, answer: Answer): void {
  if (!name.endsWith('.test')) {
    system(name, options, answer);
    return;
  }
  appendFileSync(`${file}.asked`, `${name}\n`);
  const address = (JSON.parse(readFileSync(file, 'utf8')) as Record<string, string | null>)[name];
  // The system's look-up gives up after 10 s or more; the gateway has to give up before that.
  if (address === null) setTimeout(() => system(name, options, answer), 10_000).unref();
  else system(address ?? name, options, answer);
}

dns.lookup = redirected as typeof dns.lookup;
syncBuiltinESMExports();
