import { spawn } from 'node:child_process';
import { writeSync } from 'node:fs';
import type { Rpc } from '../../fixtures/http/rpc.ts';
import type { LedgerFile } from './ledger-file.ts';

/** How a tool reaches its caller, and how the server misbehaves on its wire. */
export interface Wire {
  answer(message: Rpc, result: Record<string, unknown>): void;
  /** Writes bytes that are no regular answer, as they are. */
  write(bytes: string | Buffer): void;
  stopReading(): void;
}

const REPEATABLE = { readOnlyHint: true, idempotentHint: true };
const input = (properties: Record<string, object> = {}): object => ({
  type: 'object',
  properties: { call: { type: 'string' }, session: { type: 'string' }, ...properties },
  required: ['call'],
});
const number = { type: 'number' };
const text = { type: 'string' };

/** The tools of a ledger server. `safe` ones say that they may be called twice; the others make no such promise. */
export const LEDGER_TOOLS: readonly Record<string, unknown>[] = [
  { name: 'safe', description: 'Executes; may be repeated.', inputSchema: input(), annotations: REPEATABLE },
  {
    name: 'safe_slow',
    description: 'Executes, answers after ms; may be repeated.',
    inputSchema: input({ ms: number }),
    annotations: REPEATABLE,
  },
  { name: 'unsafe', description: 'Executes; not to be repeated.', inputSchema: input() },
  { name: 'slow', description: 'Executes at once, answers after ms.', inputSchema: input({ ms: number }) },
  { name: 'crash_before', description: 'Dies before it has done anything.', inputSchema: input() },
  { name: 'crash_after', description: 'Executes and dies without an answer.', inputSchema: input() },
  { name: 'answer_and_die', description: 'Executes, answers and dies at once.', inputSchema: input() },
  { name: 'half_and_die', description: 'Executes, writes half an answer and dies.', inputSchema: input() },
  { name: 'hang', description: 'Executes and never answers.', inputSchema: input() },
  { name: 'big', description: 'Answers with so many bytes.', inputSchema: input({ bytes: number }) },
  {
    name: 'say',
    description: 'Writes lines of its own before the answer, so many times; once where that is not said.',
    inputSchema: input({ text, times: number }),
  },
  {
    name: 'flood',
    description: 'Writes so many MiB without a newline, then answers.',
    inputSchema: input({ mib: number }),
  },
  {
    name: 'complain',
    description: 'Writes to standard error, so many times, and answers.',
    inputSchema: input({ text, times: number }),
  },
  {
    name: 'announce',
    description: 'Says so often that its tools changed, and answers.',
    inputSchema: input({ times: number }),
  },
  {
    name: 'chatter',
    description: 'Reports progress so many times, in so many bytes, and answers.',
    inputSchema: input({ times: number, bytes: number }),
  },
  { name: 'fork', description: 'Begets processes without end, and never answers.', inputSchema: input() },
  { name: 'stop_reading', description: 'Answers and never reads again.', inputSchema: input() },
  { name: 'environment', description: 'Answers with an environment variable.', inputSchema: input({ text }) },
];

const CHANGED = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n';

export function performTool(message: Rpc, ledger: LedgerFile, wire: Wire): void {
  const tool = message.params?.name ?? '';
  const args = (message.params?.arguments ?? {}) as {
    call: string;
    session?: string;
    ms: number;
    bytes: number;
    mib: number;
    times: number;
    text: string;
  };
  const { call, session } = args;
  if (tool === 'crash_before') process.exit(9);
  ledger.write({ event: 'executed', call, tool, ...(session === undefined ? {} : { session }) });
  const done = (extra = ''): void =>
    wire.answer(message, { content: [{ type: 'text', text: `done ${call}${extra}` }] });
  switch (tool) {
    case 'slow':
    case 'safe_slow':
      setTimeout(done, args.ms);
      return;
    case 'hang':
      return;
    case 'fork':
      spawn('sh', ['-c', "trap '' TERM; f() { f & f & sleep 1; }; while :; do f; done"], { stdio: 'ignore' });
      return;
    case 'crash_after':
      process.exit(9);
      break;
    case 'answer_and_die':
      done();
      process.exit(9);
      break;
    case 'half_and_die':
      wire.write(`{"jsonrpc":"2.0","id":${JSON.stringify(message.id)},"result":{"content":[{"type":"text","te`);
      process.exit(9);
      break;
    case 'big':
      done(` ${'x'.repeat(args.bytes)}`);
      return;
    case 'say':
      wire.write(args.text.replaceAll('$ID', JSON.stringify(message.id)).repeat(args.times ?? 1));
      done();
      return;
    case 'flood': {
      const mib = Buffer.alloc(1024 * 1024, 'x');
      for (let i = 0; i < args.mib; i++) wire.write(mib);
      wire.write('\n');
      done();
      return;
    }
    case 'complain':
      for (let i = 0; i < args.times; i++) writeWhole(2, `${args.text}\n`);
      done();
      return;
    case 'announce':
      for (let i = 0; i < args.times; i += 1000) wire.write(CHANGED.repeat(Math.min(1000, args.times - i)));
      done();
      return;
    case 'chatter': {
      const progressToken = message.params?._meta?.['progressToken'];
      for (let progress = 1; progress <= args.times; progress++) {
        const params = { progressToken, progress, message: 'x'.repeat(args.bytes) };
        wire.write(`${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/progress', params })}\n`);
      }
      done();
      return;
    }
    case 'stop_reading':
      done();
      wire.stopReading();
      return;
    case 'environment':
      done(` ${process.env[args.text] ?? ''}`);
      return;
    default:
      done();
  }
}

/** Writes all data synchronously, however slow the reader is. */
export function writeWhole(fd: number, data: string | Buffer): void {
  let bytes = typeof data === 'string' ? Buffer.from(data) : data;
  while (bytes.length > 0) {
    try {
      bytes = bytes.subarray(writeSync(fd, bytes));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
  }
}
