import type { IncomingHttpHeaders } from 'node:http';
import { requestDigest } from '../../gateway/dispatch/request-digest.ts';
import { sameRights } from '../../gateway/policy/access.ts';
import type { Principal } from '../../model/client-profile.ts';
import type { Clock } from '../../model/clock.ts';
import { Counts } from '../../model/counts.ts';
import type { Endpoint, Exchange } from '../../model/exchange.ts';
import { foreignState, GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import type { Random } from '../../model/random.ts';
import type { Sealing } from '../../model/sealing.ts';
import { entries, field, type Range, stringValue } from '../../protocol/fields.ts';
import { inputOf, inputRequired, takesInput, withInput } from '../../protocol/stateless/input-required.ts';
import { type ClientExchange, type ExchangeList, paramHeadersOf } from '../session/client-exchange.ts';
import type { OtherNodes } from '../session/other-nodes.ts';
import { PendingInputCall, type PendingInputCalls, TTL_MS } from './pending-input-call.ts';

/** Pending calls, of all clients and of one principal. */
const MAX_CALLS = 4_096;
const MAX_PER_PRINCIPAL = 2_048;
/** Bytes that they may hold together: requests, questions, and buffered answers. */
const MAX_BYTES = 64 * 1024 * 1024;
/** Bytes that the calls of one principal may hold. */
const MAX_BYTES_PER_PRINCIPAL = MAX_BYTES / 2;
/** Prefix of every `requestState` that the gateway seals. */
const MARK = 'trunkline-call.';
const MARK_BYTES = Buffer.from(MARK);
const HANDLE_BYTES = 16;

interface PendingInputRequestsDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly sealing: Sealing;
  readonly others?: OtherNodes | undefined;
}

/** What a request with a `requestState` of the gateway is. */
export type RetryMatch =
  | { readonly kind: 'refused'; readonly error: GatewayError }
  /** The next round of a pending call. */
  | { readonly kind: 'resumes'; readonly call: PendingInputCall; readonly responses: Range | null }
  /** The next round of a call that is pending at another node. */
  | { readonly kind: 'elsewhere'; readonly run: (exchange: Exchange) => Promise<Outcome> }
  /** A call to run again from its first request: its server keeps no state for it. */
  | { readonly kind: 'again'; readonly request: Message };

interface Ticket {
  /** Null for a call that is to be run again. */
  readonly call: PendingInputCall | null;
  /** Deletes the ticket, because its state was used or has expired. */
  end(): void;
}

/**
 * The pending calls of stateless clients, and the sealed states that lead back to them (proto:S3, proto:S6). A state is
 * valid once, for its principal, endpoint, method and params, until it expires; any other request gets -32602, and nothing
 * runs. A state of an earlier process proves that a call ran whose end is unknown: it gets UNKNOWN, and the call is not run
 * again. If it was for a call to be run again, it may have been used, so it gets -32602 too. A state of another live node
 * is forwarded to that node.
 */
export class PendingInputRequests implements PendingInputCalls {
  readonly #deps: PendingInputRequestsDeps;
  readonly #incarnation: string;
  readonly #tickets = new Map<string, Ticket>();
  readonly #calls = new Set<PendingInputCall>();
  readonly #perPrincipal = new Counts();
  /** States for calls to be run again, by principal. */
  readonly #reruns = new Counts();
  /** Bytes held for calls, by principal. */
  readonly #bytes = new Counts();

  constructor(deps: PendingInputRequestsDeps) {
    this.#deps = deps;
    this.#incarnation = deps.others?.self ?? deps.random.hex(8);
  }

  /** Live calls without an attached request. */
  get waitingForInput(): number {
    let count = 0;
    for (const call of this.#calls) if (call.waitingForInput) count++;
    return count;
  }

  /**
   * The call's server asks for the first time: from now on another exchange serves the client in its place and in
   * `inFlight`. `wire` is the wire whose end ends the call. Throws GatewayError if there are too many calls.
   */
  begin(call: ClientExchange, inFlight: ExchangeList, endpoint: Endpoint, wire: object | null): ClientExchange {
    const { id } = call.client.principal;
    const { length } = call.request.bytes;
    if (
      this.#calls.size >= MAX_CALLS ||
      this.#perPrincipal.of(id) >= MAX_PER_PRINCIPAL ||
      !this.#hasCapacity(id, length)
    ) {
      throw new GatewayError('OVERLOADED', 'too many calls wait for answers of clients');
    }
    const attached = call.attachedRequest();
    const opened = new PendingInputCall(call, attached, endpoint, wire, this, this.#deps.clock);
    this.#calls.add(opened);
    this.hold(opened, length);
    this.#perPrincipal.add(id, 1);
    inFlight.remove(call);
    inFlight.add(attached);
    return attached;
  }

  hold(call: PendingInputCall, bytes: number): boolean {
    const { id } = call.call.client.principal;
    if (!this.#hasCapacity(id, bytes)) return false;
    this.#count(call, bytes);
    return true;
  }

  release(call: PendingInputCall, bytes: number): void {
    this.#count(call, -bytes);
  }

  requireInput(call: PendingInputCall, questions: Buffer): Message {
    const { request, client } = call.call;
    const handle = this.#deps.random.hex(HANDLE_BYTES);
    call.handle = handle;
    call.digest ||= requestDigest(request);
    this.#tickets.set(handle, { call, end: () => this.#tickets.delete(handle) });
    return inputRequired(questions, this.#sealed(client.principal, call.endpoint, handle, call.digest));
  }

  remove(call: PendingInputCall): void {
    if (!this.#calls.has(call)) return;
    this.#count(call, -call.held);
    this.#calls.delete(call);
    this.#tickets.delete(call.handle);
    this.#perPrincipal.add(call.call.client.principal.id, -1);
  }

  /** The result that asks a client for input and then to run the call again. */
  requireInputForRerun(exchange: ClientExchange, endpoint: Endpoint, questions: Buffer): Message {
    const handle = this.#deps.random.hex(HANDLE_BYTES);
    const { principal } = exchange.client;
    if (this.#tickets.size >= 2 * MAX_CALLS || this.#reruns.of(principal.id) >= MAX_PER_PRINCIPAL) {
      throw new GatewayError('OVERLOADED', 'too many clients are asked');
    }
    const disarm = this.#deps.clock.after(TTL_MS, () => end());
    const end = (): void => {
      disarm();
      this.#tickets.delete(handle);
      this.#reruns.add(principal.id, -1);
    };
    this.#tickets.set(handle, { call: null, end });
    this.#reruns.add(principal.id, 1);
    return inputRequired(
      questions,
      this.#sealed(principal, endpoint, handle, `again ${requestDigest(exchange.request)}`),
    );
  }

  /** Finds the call that the request continues; null without a state of the gateway. `headers` are its `Mcp-Param-*`. */
  matchRetry(
    request: Message,
    principal: Principal,
    endpoint: Endpoint,
    headers: IncomingHttpHeaders | null,
  ): RetryMatch | null {
    if (!takesInput(request.method) || !request.bytes.includes(MARK_BYTES)) return null;
    const { responses, state } = inputOf(request);
    const text = stringValue(request.bytes, state);
    if (text === null || !text.startsWith(MARK)) return null;
    if (responses !== null && request.bytes[responses.start] !== 0x7b) {
      return refused('INVALID_PARAMS', 'params.inputResponses must be an object');
    }
    const opened = this.#deps.sealing.open(contextOf(principal, endpoint), text.slice(MARK.length));
    const [incarnation, handle, expiresAt, digest] = opened?.split('\0') ?? [];
    const again = digest?.startsWith('again ') === true;
    const matches = digest !== undefined && digest === `${again ? 'again ' : ''}${requestDigest(request)}`;
    if (!matches) return { kind: 'refused', error: foreignState() };
    if (this.#deps.clock.wall() >= Number(expiresAt))
      return refused('INVALID_PARAMS', 'params.requestState has expired');
    const { others } = this.#deps;
    if (incarnation !== this.#incarnation && others?.has(incarnation!) === true) {
      return { kind: 'elsewhere', run: (exchange) => others.returned(incarnation!, exchange, endpoint) };
    }
    const ticket = this.#tickets.get(handle!);
    if (ticket === undefined && (again || incarnation === this.#incarnation)) {
      return refused('INVALID_PARAMS', 'params.requestState was used already, or is too old');
    }
    if (ticket?.call && headers !== null && !sameParamHeaders(headers, ticket.call.call.paramHeaders)) {
      return refused('HEADER_MISMATCH', 'Header mismatch: Mcp-Param-* differ from those the call began with');
    }
    if (again && responses !== null && isDeclined(request.bytes, responses)) {
      return refused('CANCELLED', 'the user declined what the server asked for');
    }
    ticket?.end();
    if (again) return { kind: 'again', request: withInput(request, null, null) };
    const call = ticket?.call ?? null;
    if (call === null) return refused('UNKNOWN', 'the gateway was restarted while the call waited; it may have run');
    // `reauthorize` passes over a call with an attached request, and may come later here than at the client's node.
    if (!sameRights(call.call.client.principal, principal)) call.abandon(rightsChanged());
    return { kind: 'resumes', call, responses };
  }

  /** The wire has closed: cancels the pending calls of its clients. */
  onWireClosed(wire: object, reason: string): void {
    for (const call of [...this.#calls]) if (call.wire === wire && call.waitingForInput) call.cancel(reason);
  }

  /** Ends pending calls if the rights of their caller changed since they began. */
  reauthorize(current: (principalId: string) => Principal | null): void {
    for (const call of [...this.#calls]) {
      const { principal } = call.call.client;
      if (call.waitingForInput && !sameRights(principal, current(principal.id))) call.abandon(rightsChanged());
    }
  }

  /** The gateway stops. A client that retries at the next process gets UNKNOWN. */
  close(): void {
    const text = 'the gateway stopped before the answer came';
    const stopped = failure(new GatewayError('UNKNOWN', text));
    for (const { call, waitingForInput } of [...this.#calls]) if (waitingForInput) call.conclude(stopped, text);
  }

  #hasCapacity(principalId: string, bytes: number): boolean {
    return this.#bytes.total + bytes <= MAX_BYTES && this.#bytes.of(principalId) + bytes <= MAX_BYTES_PER_PRINCIPAL;
  }

  /** No-op for a call that has ended, whose bytes were all released then. */
  #count(call: PendingInputCall, bytes: number): void {
    if (!this.#calls.has(call)) return;
    call.held += bytes;
    this.#bytes.add(call.call.client.principal.id, bytes);
  }

  #sealed(principal: Principal, endpoint: Endpoint, handle: string, digest: string): string {
    const expiresAt = this.#deps.clock.wall() + TTL_MS;
    const text = [this.#incarnation, handle, expiresAt, digest].join('\0');
    return MARK + this.#deps.sealing.seal(contextOf(principal, endpoint), text);
  }
}

function rightsChanged(): GatewayError {
  return new GatewayError('ACCESS_DENIED', 'the rights of the caller have changed', { outcome: 'UNKNOWN' });
}

function refused(code: GatewayError['code'], text: string): RetryMatch {
  const outcome = code === 'UNKNOWN' ? 'UNKNOWN' : 'REFUSED';
  return { kind: 'refused', error: new GatewayError(code, text, { outcome }) };
}

function isDeclined(bytes: Buffer, responses: Range): boolean {
  for (const { valueStart, valueEnd } of entries(bytes, responses.start, responses.end)) {
    const action = stringValue(bytes, field(bytes, valueStart, valueEnd, 'action'));
    if (action === 'decline' || action === 'cancel') return true;
  }
  return false;
}

/** The body was compared by its digest; its mirror headers were checked when the call began. */
function sameParamHeaders(headers: IncomingHttpHeaders, before: Readonly<Record<string, string>> | null): boolean {
  const now = paramHeadersOf(headers);
  const names = Object.keys(now);
  if (before === null) return names.length === 0;
  return names.length === Object.keys(before).length && names.every((name) => now[name] === before[name]);
}

function contextOf(principal: Principal, { path }: Endpoint): string {
  return `parked\0${principal.id}\0${path}`;
}
