import type { HttpClientPort, HttpRequest, ResponseHandler } from '../../http/client/client-port.ts';
import type { HttpFailure } from '../../http/client/http-failure.ts';
import type { ResponseHeaders } from '../../http/client/response-headers.ts';
import { SseParser } from '../../protocol/sse-parser.ts';

const NOTHING = Buffer.alloc(0);
const MAX_BYTES = 64 * 1024 * 1024;

/** One request to a gateway, and its result. */
export class BridgeRequest implements ResponseHandler {
  /** 0 if no answer began. */
  status = 0;
  headers: ResponseHeaders | null = null;
  /** The whole body of an answer that was not streamed. */
  body: Buffer = NOTHING;
  /** Id of the last event that had one. */
  lastEventId: string | null = null;
  /** The reconnection delay that the gateway asked for. */
  retryMs: number | null = null;
  /** Why the answer is incomplete; null if it is complete. */
  failure: HttpFailure | null = null;
  readonly #onMessage: (data: Buffer) => void;
  readonly #ended: (request: BridgeRequest) => void;
  #parser: SseParser | null = null;

  /** `onMessage` gets each message of an event stream as it arrives; `ended` is called once the answer has ended or failed. */
  constructor(onMessage: (data: Buffer) => void, ended: (request: BridgeRequest) => void) {
    this.#onMessage = onMessage;
    this.#ended = ended;
  }

  /** Whether the answer was an event stream, whose messages went to `onMessage`. */
  get streamed(): boolean {
    return this.#parser !== null;
  }

  head(status: number, headers: ResponseHeaders): 'stream' | 'whole' {
    this.status = status;
    this.headers = headers;
    if (status !== 200 || headers.mediaType !== 'text/event-stream') return 'whole';
    this.#parser = new SseParser(MAX_BYTES, ({ id, data: message, retryMs }) => {
      if (id !== null) this.lastEventId = id;
      if (retryMs !== null) this.retryMs = retryMs;
      if (message.length > 0) this.#onMessage(message);
    });
    return 'stream';
  }

  data(chunk: Buffer): void {
    if (this.#parser === null) this.body = chunk;
    else this.#parser.push(chunk);
  }

  end(): void {
    this.#ended(this);
  }

  error(failure: HttpFailure): void {
    this.failure = failure;
    this.#ended(this);
  }
}

/** The result of a request that this side aborted. */
export const ABORTED = new BridgeRequest(
  () => {},
  () => {},
);

/** Sends a request; never rejects. `onStart` gets the function that aborts it. */
export function sendBridgeRequest(
  client: HttpClientPort,
  request: HttpRequest,
  onMessage: (data: Buffer) => void,
  onStart: (abort: () => void) => void = () => {},
): Promise<BridgeRequest> {
  return new Promise((resolve) => {
    const running = client.request({ ...request, maxBodyBytes: MAX_BYTES }, new BridgeRequest(onMessage, resolve));
    onStart(() => {
      running.abort();
      resolve(ABORTED);
    });
  });
}
