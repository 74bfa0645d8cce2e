import type { GatewayError } from '../../src/model/gateway-error.ts';
import type { ClosedReason, TransportReceiver } from '../../src/upstream/transport/transport.ts';

interface Received {
  readonly bytes: Buffer;
  readonly request: number;
}

interface Loss {
  readonly request: number;
  readonly error: GatewayError;
}

/** Test double: keeps everything that a transport reports, in order, and lets a test wait for it. */
export class RecordingReceiver implements TransportReceiver {
  readonly messages: Received[] = [];
  readonly losses: Loss[] = [];
  readonly closedReasons: ClosedReason[] = [];
  /** `received 0`, `lost 2`, `closed`: the reports, in their order. */
  readonly order: string[] = [];
  readonly #waiting = new Set<() => void>();

  received(bytes: Buffer, request: number): void {
    this.messages.push({ bytes, request });
    this.#note(`received ${request}`);
  }

  lost(request: number, error: GatewayError): void {
    this.losses.push({ request, error });
    this.#note(`lost ${request}`);
  }

  closed(reason: ClosedReason): void {
    this.closedReasons.push(reason);
    this.#note('closed');
  }

  /** Resolves once the condition holds; every report of the transport checks it. */
  until(condition: () => boolean): Promise<void> {
    if (condition()) return Promise.resolve();
    return new Promise((resolve) => {
      const look = (): void => {
        if (!condition()) return;
        this.#waiting.delete(look);
        resolve();
      };
      this.#waiting.add(look);
    });
  }

  /** The message whose `id` is this number. */
  async answer(id: number): Promise<Received> {
    const find = (): Received | undefined => this.messages.find(({ bytes }) => idOf(bytes) === id);
    await this.until(() => find() !== undefined);
    return find()!;
  }

  async loss(request: number): Promise<GatewayError> {
    const find = (): Loss | undefined => this.losses.find((loss) => loss.request === request);
    await this.until(() => find() !== undefined);
    return find()!.error;
  }

  #note(what: string): void {
    this.order.push(what);
    for (const look of [...this.#waiting]) look();
  }
}

function idOf(bytes: Buffer): unknown {
  const message: unknown = JSON.parse(bytes.toString());
  return typeof message === 'object' && message !== null && 'id' in message ? message.id : undefined;
}
