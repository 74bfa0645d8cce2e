import { fsyncSync, openSync, writeSync } from 'node:fs';
import type { LedgerEntry } from './ledger-entry.ts';

type WithoutPid<E> = E extends LedgerEntry ? Omit<E, 'pid' | 'epoch' | 'bornAt' | 'at'> : never;

const EPOCH = process.env['TRUNKLINE_EPOCH'];
/** Members for processes that were started under a fencing token. */
const OWNED = EPOCH === undefined ? {} : { epoch: EPOCH, bornAt: Math.round(performance.timeOrigin) };

/** The upstream's own account of what it did: on disk before anything is answered, so that no kill can falsify it. */
export class LedgerFile {
  readonly #fd: number;

  constructor(path: string) {
    this.#fd = openSync(path, 'a');
  }

  write(entry: WithoutPid<LedgerEntry>): void {
    writeSync(this.#fd, `${JSON.stringify({ ...entry, pid: process.pid, at: Date.now(), ...OWNED })}\n`);
    fsyncSync(this.#fd);
  }
}
