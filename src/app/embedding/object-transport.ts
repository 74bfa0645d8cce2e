/**
 * A channel of parsed JSON-RPC messages, with the members of transports of the MCP SDK (1.x and 2.x), for an SDK `Client` or
 * `McpServer`. Numbers beyond 2^53 lose digits on the SDK's side.
 */
export interface SdkTransport {
  /** Call it after the callbacks are set; earlier messages wait. */
  start(): Promise<void>;
  send(message: object, options?: object): Promise<void>;
  close(): Promise<void>;
  onmessage?: ((message: object, extra?: object) => void) | undefined;
  /** Called once, whichever side closes the channel. */
  onclose?: (() => void) | undefined;
  onerror?: ((error: Error) => void) | undefined;
}

/** The other end of the channel: complete messages as JSON text. */
export interface TextWire {
  send(text: string): void;
  /** The transport's user closed it. */
  close(): void;
}

/** `SdkTransport` over a wire of JSON texts in this process. */
export class ObjectTransport implements SdkTransport {
  onmessage?: ((message: object, extra?: object) => void) | undefined;
  onclose?: (() => void) | undefined;
  onerror?: ((error: Error) => void) | undefined;
  readonly #wire: TextWire;
  readonly #early: string[] = [];
  #state: 'new' | 'open' | 'closed' = 'new';

  constructor(wire: TextWire) {
    this.#wire = wire;
  }

  async start(): Promise<void> {
    if (this.#state !== 'new')
      throw new Error(`the transport is ${this.#state === 'open' ? 'started' : 'closed'} already`);
    this.#state = 'open';
    for (const text of this.#early.splice(0)) this.deliver(text);
  }

  async send(message: object): Promise<void> {
    if (this.#state !== 'open') throw new Error('the transport is not open');
    this.#wire.send(JSON.stringify(message));
  }

  async close(): Promise<void> {
    if (this.#state === 'closed') return;
    this.#wire.close();
    this.ended();
  }

  /** Delivers a complete message to the transport's user. Exceptions of the user's handler go to its `onerror`. */
  deliver(text: string): void {
    if (this.#state === 'new') this.#early.push(text);
    if (this.#state !== 'open') return;
    try {
      this.onmessage?.(JSON.parse(text) as object);
    } catch (cause) {
      this.onerror?.(cause instanceof Error ? cause : new Error(String(cause)));
    }
  }

  /** The wire has ended. */
  ended(): void {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.onclose?.();
  }
}
