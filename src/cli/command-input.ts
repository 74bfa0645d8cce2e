import type { GatewayFlags } from './flags.ts';
import type { Terminal } from './terminal.ts';

/** What every command is given. */
export interface CommandInput {
  /** Configuration file as the user wrote it; undefined for the nearest one. */
  readonly file: string | undefined;
  /** Words behind `--`; empty without. */
  readonly serverCommand: readonly string[];
  readonly flags: GatewayFlags;
  readonly terminal: Terminal;
}

/** Prints the facts, or JSON text, with `--json`; the text without. */
export function print({ terminal, flags }: CommandInput, facts: object | string, text: () => string): void {
  const json = typeof facts === 'string' ? facts : JSON.stringify(facts);
  terminal.out(flags.json === true ? `${json}\n` : text());
}
