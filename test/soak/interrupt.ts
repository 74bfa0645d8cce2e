import { constants } from 'node:os';
import { childrenOf, killAll } from '../support/processes.ts';

/**
 * An interrupted proof, which `--resume` continues, leaves no gateway, server or database behind: they would take the
 * processors from the part that is tried again.
 */
export function endOnInterrupt(): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => {
      killAll(childrenOf(process.pid).map(([pid]) => pid));
      process.exit(128 + constants.signals[signal]);
    });
  }
}
