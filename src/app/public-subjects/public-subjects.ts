import type { Bus } from '../../bus/bus.ts';
import type { Wire, WireMessage } from '../../bus/wire.ts';
import type { Served } from '../../cluster/calls/attempts.ts';
import type { Cluster } from '../../cluster/cluster.ts';
import type { Principal } from '../../model/client-profile.ts';
import { publicCallId, serverEndpoint } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { elements, field } from '../../protocol/fields.ts';
import type { RegistryChange } from '../../registry/registry.ts';
import type { Components } from '../components.ts';
import { ask, pages, resultOf } from '../embedding/operator-calls.ts';
import { ServerError } from '../embedding/server-error.ts';
import { Operator, operatorProfile } from '../operator.ts';
import type { WhenOrphaned } from './open-call.ts';
import { OpenCalls } from './open-calls.ts';
import { failureReply, listReply, serverErrorReply, toolReply } from './replies.ts';
import { publicNames, ServerAnnouncements } from './server-announcements.ts';
import { subjectExecute, subjectListTools } from './subjects.ts';
import { readListRequest, readToolRequest, type ToolRequest } from './tool-request.ts';

const KEY_HEADER = 'Trunkline-Key';
const TIMEOUT_HEADER = 'Trunkline-Timeout-Ms';
/** Limit of concurrent calls; further ones are REFUSED (S0.21). */
const CONCURRENCY = 256;

/**
 * Serves `mcp.{name}.execute` and `mcp.{name}.list-tools` to programs in any language (S0.1, S0.2). Each subject has a queue
 * group of the same name, so that one node answers; any node finds the connection of a conversation. Callers are agents, by
 * key. All nodes get each request too, in case the node that runs it dies (`OpenCalls`). Announces servers (S0.3, S0.4).
 */
export class PublicSubjects {
  readonly #components: Components;
  readonly #wire: Wire;
  /** The agent of callers without a key; null if they are refused. */
  readonly #publicPrincipal: string | null;
  readonly #calls: OpenCalls;
  readonly #announcements: ServerAnnouncements;
  readonly #unsubscribe: () => void;
  readonly #served = new Map<string, readonly { close(): Promise<void> }[]>();
  #running = 0;
  #closed = false;

  /** Serves the public subjects from now on. Returns null if the configuration does not enable them. */
  static open(components: Components): PublicSubjects | null {
    const { cluster, connection } = components;
    if (cluster === null || connection?.publicSubjects === undefined) return null;
    const { bus, wire, publicSubjects } = connection;
    return new PublicSubjects(components, cluster, bus, wire, publicSubjects.principal);
  }

  private constructor(components: Components, cluster: Cluster, bus: Bus, wire: Wire, publicPrincipal: string | null) {
    this.#components = components;
    this.#wire = wire;
    this.#publicPrincipal = publicPrincipal;
    this.#calls = new OpenCalls({ bus, wire, clock: components.clock, cluster });
    cluster.listen({ publicCall: (reply, server, by) => this.#trackForwarded(reply, server, by) });
    this.#serveAll();
    this.#announcements = new ServerAnnouncements({ ...components, wire, known: cluster.known });
    this.#unsubscribe = components.registry.onChange((change) => this.#changed(change));
  }

  get inFlight(): number {
    return this.#calls.heldCount;
  }

  /** The servers of the cluster may have changed. */
  sync(): void {
    this.#serveAll();
    this.#announcements.update();
  }

  /**
   * Accepts no more calls and ends the announcements; running calls go on. Resolves when all calls that NATS sent to this node
   * have arrived.
   */
  async close(): Promise<void> {
    this.#unsubscribe();
    this.#announcements.close();
    this.#closed = true;
    const closing = [...this.#served.values()].flatMap((all) => all.map((subscription) => subscription.close()));
    this.#served.clear();
    await Promise.all(closing);
  }

  /** Serves a server before it announces it, because programs may call it at once. */
  #changed({ servers }: RegistryChange): void {
    this.sync();
    this.#announcements.changed(new Set([...servers.added, ...servers.changed, ...servers.updated]));
  }

  /** A call that node `by` received runs here. The returned function takes its outcome. */
  #trackForwarded(reply: string, server: string, by: string): (outcome: Served) => void {
    const ended = this.#calls.trackForwarded(reply, by);
    return (outcome) => ended(forwardedReply(outcome, server, this.#wire.maxPayload));
  }

  /** Serves exactly the current servers; subscriptions of unchanged ones continue without a gap. */
  #serveAll(): void {
    if (this.#closed) return;
    const names = new Set(publicNames(this.#components.allUpstreams));
    for (const [name, subscriptions] of this.#served) {
      if (names.has(name)) continue;
      for (const subscription of subscriptions) void subscription.close();
      this.#served.delete(name);
    }
    for (const name of names) if (!this.#served.has(name)) this.#served.set(name, this.#serve(name));
  }

  #serve(name: string): readonly { close(): Promise<void> }[] {
    const wire = this.#wire;
    const [execute, list] = [subjectExecute(name), subjectListTools(name)];
    const run = (message: WireMessage) => void this.#answer(message, name, false, (m) => this.#execute(name, m));
    const runList = (message: WireMessage) => void this.#answer(message, name, true, (m) => this.#list(name, m));
    const text = 'the node that took the call is gone, or cut off; the call may have run';
    const lost = failureReply(new GatewayError('UNKNOWN', text, { server: name }), false);
    const seen = (message: WireMessage, orphaned: WhenOrphaned): void => {
      if (message.reply !== '') this.#calls.seen(message.reply, orphaned);
    };
    return [
      wire.subscribe(execute, run, execute),
      wire.subscribe(list, runList, list),
      wire.subscribe(execute, (message) => seen(message, lost)),
      wire.subscribe(list, (message) => seen(message, () => runList(message))),
    ];
  }

  /** Ignores a request without a reply subject, because no program would get its outcome. */
  async #answer(
    message: WireMessage,
    server: string,
    isList: boolean,
    run: (message: WireMessage) => Promise<Buffer>,
  ): Promise<void> {
    if (message.reply === '') return;
    const { operations } = this.#components;
    const since = operations?.clock.now() ?? 0;
    const taken = this.#calls.take(message.reply);
    if (taken !== null && !(await taken)) return;
    let answer: Buffer;
    let failed: unknown = null;
    this.#running++;
    try {
      if (this.#running > CONCURRENCY) throw new GatewayError('OVERLOADED', `${CONCURRENCY} calls are under way here`);
      answer = sendable(await run(message), this.#wire.maxPayload);
    } catch (error) {
      failed = error;
      answer = errorReply(error, isList, this.#wire.maxPayload);
    } finally {
      this.#running--;
    }
    this.#calls.answer(message.reply, answer);
    const error = failed === null || failed instanceof Error ? failed : new Error(String(failed));
    operations?.report({ name: isList ? 'list-tools' : 'execute', subject: message.subject, server, error }, since);
  }

  async #execute(name: string, message: WireMessage): Promise<Buffer> {
    const principal = this.#principal(message);
    const request = readToolRequest(message.payload);
    const params = `{"name":${JSON.stringify(request.tool)},"arguments":${request.args}}`;
    const caller = this.#caller(principal, request.sessionId, message.reply);
    const question = { endpoint: serverEndpoint(name), method: 'tools/call', params };
    return toolReply(await ask(caller, question, deadline(request, message)));
  }

  async #list(name: string, message: WireMessage): Promise<Buffer> {
    const request = readListRequest(message.payload);
    const caller = this.#caller(this.#principal(message), request.sessionId, message.reply);
    const question = { endpoint: serverEndpoint(name), method: 'tools/list' };
    const tools: Buffer[] = [];
    for await (const body of pages(caller, question, deadline(request, message))) {
      const list = field(body, 0, body.length, 'tools');
      if (list === null) continue;
      for (const { start, end } of elements(body, list.start, list.end)) tools.push(body.subarray(start, end));
    }
    return listReply(tools);
  }

  /** Returns the caller in one of its conversations, for the call that is answered at `reply`. */
  #caller(principal: Principal, conversation: string, reply: string): Operator {
    const { gateway, random, operator } = this.#components;
    const profile = operatorProfile(operator.profile.info ?? '{}', principal, `bus ${conversation}`);
    return new Operator(gateway, random, profile, publicCallId(reply));
  }

  /** Refuses a wrong key also with a public principal: a program with a key wants to act as that agent. */
  #principal(message: WireMessage): Principal {
    const { authenticator } = this.#components;
    const key = message.header(KEY_HEADER);
    const principal =
      key !== null
        ? authenticator.authenticate(`Bearer ${key}`)
        : this.#publicPrincipal === null
          ? null
          : authenticator.principal(`agent:${this.#publicPrincipal}`);
    if (principal?.id.startsWith('agent:') === true) return principal;
    const text = key === null ? `the header ${KEY_HEADER} has to hold the key of an agent` : 'no agent has this key';
    throw new GatewayError('ACCESS_DENIED', text);
  }
}

function deadline({ timeoutMs }: ToolRequest, message: WireMessage): { readonly timeoutMs?: number } {
  const said = timeoutMs ?? Number(message.header(TIMEOUT_HEADER) ?? 0);
  return said > 0 && said < 2 ** 31 ? { timeoutMs: said } : {};
}

/** Returns the answer to a call that another node received and that ran here; null if it did not begin here. */
function forwardedReply(outcome: Served, server: string, maxPayload: number): Buffer | null {
  if (outcome.kind === 'elsewhere') return null;
  try {
    const question = { endpoint: serverEndpoint(server), method: 'tools/call', params: '{}' };
    return sendable(toolReply(resultOf(outcome, question)), maxPayload);
  } catch (error) {
    return errorReply(error, false, maxPayload);
  }
}

function sendable(answer: Buffer, maxPayload: number): Buffer {
  if (answer.length <= maxPayload) return answer;
  throw tooLarge(answer, maxPayload);
}

function tooLarge({ length }: Buffer, maxPayload: number): GatewayError {
  return new GatewayError('TOO_LARGE', `the answer has ${length} bytes, of which NATS takes ${maxPayload}`);
}

function errorReply(error: unknown, isList: boolean, maxPayload: number): Buffer {
  const known = error instanceof GatewayError ? error : new GatewayError('INTERNAL', 'the gateway failed');
  const reply = error instanceof ServerError ? serverErrorReply(error, isList) : failureReply(known, isList);
  return reply.length <= maxPayload ? reply : failureReply(tooLarge(reply, maxPayload), isList);
}
