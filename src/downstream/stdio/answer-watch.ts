import type { Message } from '../../model/message.ts';
import { LISTEN } from '../../protocol/methods.ts';
import { isScanFailure, scanMessage } from '../../protocol/scan.ts';

/** A message of the client that is being sent. Passes on what comes back for it, and detects its answer. */
export class AnswerWatch {
  readonly sent: Message;
  /** The answer. */
  message: Message | null = null;
  /** The client has cancelled the request or stopped to listen: it is not sent again, and its loss is not reported. */
  calledOff = false;
  /** Ends the attempt that is under way. */
  abort: () => void = () => {};
  readonly #write: (data: Buffer) => void;

  constructor(sent: Message, write: (data: Buffer) => void) {
    this.sent = sent;
    this.#write = write;
  }

  get came(): boolean {
    return this.message !== null;
  }

  /** Whether the client waits for an answer. */
  get awaited(): boolean {
    return this.sent.kind === 'request' && !this.came && !this.calledOff;
  }

  /** Whether it is a listening stream that the client still reads. */
  get listens(): boolean {
    return this.awaited && this.sent.era === 'stateless' && this.sent.method === LISTEN;
  }

  readonly take = (data: Buffer): void => {
    const scanned = scanMessage(data, 'stateful', 'relaxed');
    if (isScanFailure(scanned)) return;
    const answers = scanned.kind === 'result' || scanned.kind === 'error';
    if (answers && this.sent.kind === 'request' && scanned.id === this.sent.id) this.message = scanned;
    this.#write(data);
  };
}
