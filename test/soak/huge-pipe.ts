/**
 * A server on standard streams whose one tool, `big`, answers with the requested number of bytes. Answers are kept: fresh
 * memory for each answer would keep the kernel busy for milliseconds at a time, even at a low priority.
 */
import { createInterface } from 'node:readline';
import { writeWhole } from '../faults/ledger/ledger-tools.ts';

interface Asked {
  readonly id?: string | number;
  readonly method: string;
  readonly params?: { readonly arguments?: { readonly bytes: number } };
}

const TOOL = { name: 'big', inputSchema: { type: 'object', properties: { bytes: { type: 'number' } } } };
const INITIALIZED = {
  protocolVersion: '2025-11-25',
  capabilities: { tools: {} },
  serverInfo: { name: 'huge', version: '1' },
};
const answers = new Map<number, Buffer>();

function answer(id: string | number, result: string | Buffer): void {
  writeWhole(1, `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":`);
  writeWhole(1, result);
  writeWhole(1, '}\n');
}

function bigResult(bytes: number): Buffer {
  const before = answers.get(bytes);
  if (before !== undefined) return before;
  const result = Buffer.from(JSON.stringify({ content: [{ type: 'text', text: 'x'.repeat(bytes) }] }));
  answers.set(bytes, result);
  return result;
}

const lines = createInterface({ input: process.stdin });
lines.on('line', (line) => {
  const { id, method, params } = JSON.parse(line) as Asked;
  if (id === undefined) return;
  if (method === 'initialize') answer(id, JSON.stringify(INITIALIZED));
  else if (method === 'tools/list') answer(id, JSON.stringify({ tools: [TOOL] }));
  else if (method === 'tools/call') answer(id, bigResult(params?.arguments?.bytes ?? 0));
  else answer(id, '{}');
});
lines.on('close', () => process.exit(0));
