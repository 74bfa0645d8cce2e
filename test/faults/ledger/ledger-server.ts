import type { Rpc } from '../../fixtures/http/rpc.ts';
import type { LedgerFile } from './ledger-file.ts';
import { LEDGER_TOOLS, performTool, type Wire } from './ledger-tools.ts';

export type LedgerEra = 'stateful' | 'stateless';

const INFO = { name: 'ledger', version: '1.0.0' };

/** A server that keeps a ledger, in one of the two eras, on any wire. */
export class LedgerServer {
  readonly #ledger: LedgerFile;
  readonly #era: LedgerEra;
  /** Calls in flight, by their scope and their request id in it. */
  readonly #calls = new Map<string, string>();

  constructor(ledger: LedgerFile, era: LedgerEra) {
    this.#ledger = ledger;
    this.#era = era;
    ledger.write({ event: 'started' });
  }

  /** `scope`: request ids are unique within it, and not beyond. */
  receive(message: Rpc, wire: Wire, scope = ''): void {
    const { id } = message;
    if (id === undefined) {
      if (message.method === 'notifications/cancelled') {
        this.cancelled((message.params as unknown as { requestId: string | number }).requestId, scope);
      }
      return;
    }
    const answer = (result: Record<string, unknown>): void =>
      wire.answer(message, this.#era === 'stateless' ? { ...result, resultType: 'complete' } : result);
    const unknown = (): void =>
      wire.write(`${JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32601, message: 'no such method' } })}\n`);
    switch (message.method) {
      case 'initialize':
        if (this.#era === 'stateless') unknown();
        else
          answer({ protocolVersion: '2025-11-25', capabilities: { tools: { listChanged: true } }, serverInfo: INFO });
        break;
      case 'server/discover':
        if (this.#era === 'stateful') unknown();
        else answer({ supportedVersions: ['2026-07-28'], capabilities: { tools: {} }, serverInfo: INFO });
        break;
      case 'ping':
        this.#ledger.write({ event: 'pinged' });
        answer({});
        break;
      case 'tools/list':
        this.#ledger.write({ event: 'listed' });
        answer({ tools: LEDGER_TOOLS });
        break;
      case 'tools/call':
        this.#calls.set(`${scope} ${id}`, String(message.params?.arguments?.['call']));
        performTool(message, this.#ledger, {
          answer: (_message, result) => {
            if (this.#calls.delete(`${scope} ${id}`)) answer(result);
          },
          write: (bytes) => wire.write(bytes),
          stopReading: () => wire.stopReading(),
        });
        break;
      default:
        unknown();
    }
  }

  /** The gateway has cancelled this request, with a notification or by closing its stream. */
  cancelled(id: string | number, scope = ''): void {
    const call = this.#calls.get(`${scope} ${id}`);
    if (call === undefined) return;
    this.#calls.delete(`${scope} ${id}`);
    this.#ledger.write({ event: 'cancelled', call });
  }

  session(session: string): void {
    this.#ledger.write({ event: 'session', session });
  }
}
