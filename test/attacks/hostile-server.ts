import { createInterface } from 'node:readline';
import { HOSTILE_LISTS, hostileResult } from './hostile-lists.ts';

/** A stdio server of 2025-11-25 that offers one of the hostile sets of lists, and writes a lot to its standard error. */
const lists = HOSTILE_LISTS[process.argv[2]!]!;
process.stderr.write(`${'╰─▶ error\n      '.repeat(20_000)}\n${'/a'.repeat(20_000)}\n`);
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method } = JSON.parse(line) as { id?: number; method?: string };
  if (id === undefined || method === undefined) return;
  process.stdout.write(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${hostileResult(lists, method)}}\n`);
});
