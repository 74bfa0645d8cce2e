/** A ledger server on standard streams: `node ledger-stdio.ts <ledger file> <era>`. */
import { createInterface } from 'node:readline';
import type { Rpc } from '../../fixtures/http/rpc.ts';
import { LedgerFile } from './ledger-file.ts';
import { type LedgerEra, LedgerServer } from './ledger-server.ts';
import { type Wire, writeWhole } from './ledger-tools.ts';

const [path, era] = process.argv.slice(2);
const server = new LedgerServer(new LedgerFile(path!), (era ?? 'stateful') as LedgerEra);
const lines = createInterface({ input: process.stdin });

const wire: Wire = {
  answer: (message, result) => writeWhole(1, `${JSON.stringify({ jsonrpc: '2.0', id: message.id, result })}\n`),
  write: (bytes) => writeWhole(1, bytes),
  stopReading: () => {
    lines.pause();
    process.stdin.pause();
    // The process stays alive and reads nothing.
    setInterval(() => {}, 60_000);
  },
};

lines.on('line', (line) => server.receive(JSON.parse(line) as Rpc, wire));
lines.on('close', () => process.exit(0));
