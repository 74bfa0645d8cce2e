import { existsSync, readFileSync } from 'node:fs';

/** One execution. `call` is the id that the client put into the tool's arguments, `session` its name for its session. */
export interface Executed {
  readonly event: 'executed';
  readonly call: string;
  readonly tool: string;
  readonly pid: number;
  readonly session?: string;
  /** The fencing token that the process was started under; absent on a single node and behind a URL. */
  readonly epoch?: string;
  /** When that process began, by the wall clock. */
  readonly bornAt?: number;
  /** When the entry was written, by the wall clock. */
  readonly at?: number;
}

/** One line of the upstream's ledger. */
export type LedgerEntry =
  | Executed
  | { readonly event: 'cancelled'; readonly call: string; readonly pid: number }
  | { readonly event: 'session'; readonly session: string; readonly pid: number }
  | { readonly event: 'listed'; readonly pid: number }
  | { readonly event: 'pinged'; readonly pid: number }
  | { readonly event: 'started'; readonly pid: number };

/** The complete lines of the ledger; a line that is still being written is left out. */
export function readLedger(path: string): LedgerEntry[] {
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, 'utf8').split('\n');
  return lines.slice(0, -1).map((line) => JSON.parse(line) as LedgerEntry);
}

export function entriesOf<E extends LedgerEntry['event']>(
  path: string,
  event: E,
): Extract<LedgerEntry, { event: E }>[] {
  return readLedger(path).filter((entry): entry is Extract<LedgerEntry, { event: E }> => entry.event === event);
}

export function executed(path: string, call: string): number {
  return entriesOf(path, 'executed').filter((entry) => entry.call === call).length;
}
