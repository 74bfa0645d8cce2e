import { GatewayError } from '../../model/gateway-error.ts';
import type { Era, Message } from '../../model/message.ts';
import { LISTEN } from '../../protocol/methods.ts';
import { isBatch, isScanFailure, scanBatch, scanMessage } from '../../protocol/scan.ts';
import { restoredAnswer } from '../calls/outgoing-request.ts';
import type { PendingRequest, PendingRequests } from '../calls/pending.ts';
import { namedRequest, ownId } from '../calls/request-ids.ts';
import type { ConnectionUse } from './connection-use.ts';

/** What is needed of the connection that the bytes come on. */
interface AnsweredConnection {
  readonly era: Era;
  /** It is negotiated. */
  readonly ready: boolean;
  cutsIds(id: number): void;
  dropped(reason: string): void;
  lost(id: number, error: GatewayError): void;
}

/** Who takes what the server says on its own, and has to know which requests are over for it. */
interface Messages {
  take(message: Message, stream: number): void;
  answered(id: number, pending: PendingRequest): void;
  late(id: number): void;
}

interface IncomingMessagesDeps {
  readonly server: string;
  readonly pending: PendingRequests;
  readonly use: ConnectionUse;
  readonly messages: Messages;
}

/** The bytes that come on one connection, as messages: answers go to their requests, by the ids that these were sent with. */
export class IncomingMessages {
  readonly #channel: AnsweredConnection;
  readonly #deps: IncomingMessagesDeps;

  constructor(channel: AnsweredConnection, deps: IncomingMessagesDeps) {
    this.#channel = channel;
    this.#deps = deps;
  }

  /** `stream`: the request whose own stream it came on; 0 for what all share. */
  take(bytes: Buffer, stream: number): void {
    if (isBatch(bytes)) {
      // Each message goes its own way: when one of them is done with, its memory may be used again.
      const batch = scanBatch(bytes);
      if (isScanFailure(batch)) this.#malformed(stream, batch.reason);
      else for (const element of batch) this.#one(Buffer.from(element), stream);
    } else this.#one(bytes, stream);
  }

  #one(bytes: Buffer, stream: number): void {
    const message = scanMessage(bytes, this.#channel.era, 'relaxed');
    if (isScanFailure(message)) this.#malformed(stream, message.reason);
    else if (message.kind === 'result' || message.kind === 'error') this.#answered(message, stream);
    else {
      if (message.kind === 'notification') this.#deps.use.notified(message);
      this.#deps.messages.take(message, stream);
    }
  }

  #answered(message: Message, stream: number): void {
    const { server, pending: requests, use, messages } = this.#deps;
    const { bytes, idStart, idEnd } = message;
    // An error without an id is the server's word on the one request whose own stream it came on.
    const id =
      idStart < 0 ? stream : namedRequest(requests.byId, bytes, idStart, idEnd) || this.#uncut(message, stream);
    const pending = stream !== 0 && stream !== id ? undefined : requests.get(id);
    if (pending === undefined) {
      messages.late(ownId(bytes, idStart, idEnd));
      this.#channel.dropped('unmatched');
      // A request's own stream ends with its answer: after one to another id nothing more comes for the request.
      if (requests.get(stream) !== undefined) {
        const text = `${server} answered the request with the id of another one; the request was sent and may have run`;
        this.#channel.lost(stream, new GatewayError('UPSTREAM_PROTOCOL', text, { server }));
      }
      return;
    }
    requests.remove(id);
    try {
      use.answered(pending, message);
      if (pending.token !== null) messages.answered(id, pending);
      pending.answered(pending.method === LISTEN ? restoredAnswer(message, pending) : message);
    } catch (defect) {
      // It is not in flight any more: nothing else would ever end its call (F42).
      pending.lost(new GatewayError('INTERNAL', 'the answer could not be handed on', { server }));
      throw defect;
    }
  }

  /**
   * The request that is answered with what 32 bits keep of its id, 0 for none. That is taken for the answer on the request's own
   * stream, and on a pipe while only the handshake is under way; the requests after it have short ids.
   */
  #uncut({ bytes, idStart, idEnd }: Message, stream: number): number {
    const { pending } = this.#deps;
    const asked = stream !== 0 ? [stream] : this.#channel.ready ? [] : pending.ids;
    const kept = asked.length === 0 ? 0 : Number(bytes.toString('latin1', idStart, idEnd)) >>> 0;
    const whole = kept === 0 ? undefined : asked.find((one) => Number(pending.get(one)?.wire) >>> 0 === kept);
    if (whole === undefined) return 0;
    this.#channel.cutsIds(whole);
    return whole;
  }

  /** On a request's own stream this is its answer, and a bad one; on a pipe it is noise (F07). */
  #malformed(stream: number, reason: string): void {
    const { server, pending } = this.#deps;
    this.#channel.dropped('malformed');
    if (pending.get(stream) === undefined) return;
    const text = `${server} sent something that is no JSON-RPC message: ${reason}`;
    this.#channel.lost(stream, new GatewayError('UPSTREAM_PROTOCOL', text, { server }));
  }
}
