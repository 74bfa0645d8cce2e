import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import type { LedgerEra } from './ledger-server.ts';

const program = (name: string): string => join(import.meta.dirname, name);

/** The definition of a ledger server on standard streams. */
export function ledgerStdio(
  ledger: string,
  era: LedgerEra = 'stateful',
  more: Record<string, unknown> = {},
): Record<string, unknown> {
  return { command: process.execPath, args: [program('ledger-stdio.ts'), ledger, era], ...more };
}

/** A ledger server behind a URL, as a process that can be killed and started again on its port. */
export class LedgerHttpProcess {
  readonly port: number;
  readonly #child: ChildProcess;
  readonly #gone: Promise<void>;

  static async start(ledger: string, era: LedgerEra, port = 0): Promise<LedgerHttpProcess> {
    const args = [program('ledger-http.ts'), ledger, era, String(port)];
    const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    const line = await new Promise<string>((resolve, reject) => {
      child.stdout!.setEncoding('utf8').once('data', resolve);
      child.once('exit', (code) => reject(new Error(`the ledger server exited with ${code}`)));
    });
    return new LedgerHttpProcess(child, (JSON.parse(line) as { port: number }).port);
  }

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.port = port;
    this.#gone = new Promise((resolve) => child.once('exit', () => resolve()));
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/mcp`;
  }

  /** Suspends or continues the process. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.#child.kill(signal);
  }

  /** Kills the process, which may have exited already. */
  kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    return this.#gone;
  }
}
