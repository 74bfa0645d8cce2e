import type { IncomingMessage, ServerResponse } from 'node:http';
import { initializeAnswer } from '../../downstream/endpoints/handshake-answer.ts';
import { readInitialize } from '../../downstream/session/initialize.ts';
import { SessionManager } from '../../downstream/session/session-manager.ts';
import { bindProblem } from '../../http/listener/bind-problem.ts';
import { ANONYMOUS } from '../../model/client-profile.ts';
import { AGGREGATE, type Endpoint, serverEndpoint } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { notification, request } from '../../protocol/compose.ts';
import type { ConnectionKey } from '../../upstream/connection/session-key.ts';
import type { App } from '../app.ts';
import { productVersion } from '../version.ts';
import type { Answer, ToolArguments } from './agent-client.ts';
import type { Agents } from './agents.ts';
import { listAll, parsed } from './answers.ts';
import { connectClient } from './client-connection.ts';
import type { AsAgent, Gateway, GatewayEvents, GatewayServerStatus, GatewayTool, Listening } from './gateway-api.ts';
import type { GatewayClient } from './gateway-client.ts';
import type { ServerDefinition } from './gateway-options.ts';
import type { LogOutlet, LogSink } from './log-outlet.ts';
import type {
  Capabilities,
  CompleteResult,
  CompletionReference,
  GetPromptResult,
  InitializeParams,
  InitializeResult,
  Prompt,
  ReadResourceResult,
  Resource,
  ResourceTemplate,
  ServerInfo,
  Tool,
  ToolCallParams,
  ToolCallResult,
  ToolsListResult,
} from './mcp-types.ts';
import type { SdkTransport } from './object-transport.ts';
import { OpenError } from './open-errors.ts';
import { answered, ask, type CallOptions } from './operator-calls.ts';
import type { ListenAddress, Overlay } from './overlay.ts';
import type { Router } from './router.ts';
import { ServerError } from './server-error.ts';
import type { ServerWatch } from './server-watch.ts';
import type { Servers } from './servers.ts';
import { callParams } from './tool-arguments.ts';

export interface EmbeddedGatewayDeps {
  readonly app: App;
  readonly overlay: Overlay;
  readonly servers: Servers;
  readonly agents: Agents;
  readonly watch: ServerWatch;
  readonly log: LogOutlet;
}

const SETTLE_MS = 60_000;

/** The rooms of one `App` behind the interface for programs; see `Gateway`. */
export class EmbeddedGateway implements Gateway {
  readonly serverInfo: ServerInfo = { name: 'trunkline', title: 'Trunkline', version: productVersion() };
  readonly sessions: SessionManager;
  readonly #deps: EmbeddedGatewayDeps;
  #listening: Listening | null = null;
  #opening: Promise<Listening> | null = null;
  readonly #ended = Promise.withResolvers<void>();
  #drainAsked = false;

  constructor(deps: EmbeddedGatewayDeps) {
    const { downstream, clock, cluster } = deps.app.rooms;
    this.#deps = deps;
    if (cluster !== null) cluster.onDrainAsked = () => this.#drain();
    this.sessions = new SessionManager(downstream.sessions, () => clock.now());
  }

  get router(): Router {
    return this.#deps.servers.router;
  }

  get listening(): Listening | null {
    return this.#listening;
  }

  get closed(): Promise<void> {
    return this.#ended.promise;
  }

  servers(): readonly GatewayServerStatus[] {
    return this.#deps.servers.statuses();
  }

  activeServers(): readonly string[] {
    return this.#deps.servers.active();
  }

  server(name: string): GatewayServerStatus | null {
    return this.#deps.servers.status(name);
  }

  client(name: string): GatewayClient | null {
    return this.#deps.servers.client(name);
  }

  ready(options: { readonly servers?: readonly string[]; readonly timeoutMs?: number } = {}) {
    const { servers, timeoutMs = SETTLE_MS } = options;
    return this.#deps.servers.settled(servers ?? null, timeoutMs);
  }

  async tools({ agent, session }: AsAgent = {}): Promise<readonly GatewayTool[]> {
    const { gateway, registry } = this.#deps.app.rooms;
    const { profile } = this.#deps.agents.operator(agent, session);
    const catalog = await gateway.catalog(profile, registry.state.firstListWaitMs);
    return catalog.items('tools').map(({ exposed, server, item }) => {
      const raw = item.bytes.toString();
      const definition = JSON.parse(raw) as Tool;
      const { title, description, inputSchema } = definition;
      return {
        name: exposed,
        server,
        tool: item.key,
        ...(title === undefined ? {} : { title }),
        ...(description === undefined ? {} : { description }),
        inputSchema,
        definition,
        raw,
      };
    });
  }

  callTool(
    tool: string | { readonly server: string; readonly tool: string },
    args?: ToolArguments,
    options: CallOptions & AsAgent = {},
  ): Promise<Answer<ToolCallResult>> {
    const exposed = typeof tool === 'string';
    const endpoint = exposed ? AGGREGATE : serverEndpoint(tool.server);
    const withProgress = options.onProgress !== undefined;
    return this.#ask('tools/call', () => callParams(exposed ? tool : tool.tool, args, withProgress), options, endpoint);
  }

  listResources(options?: CallOptions & AsAgent): Promise<readonly Resource[]> {
    return this.#list('resources/list', 'resources', options);
  }

  listResourceTemplates(options?: CallOptions & AsAgent): Promise<readonly ResourceTemplate[]> {
    return this.#list('resources/templates/list', 'resourceTemplates', options);
  }

  readResource(uri: string, options?: CallOptions & AsAgent): Promise<Answer<ReadResourceResult>> {
    return this.#ask('resources/read', () => JSON.stringify({ uri }), options);
  }

  listPrompts(options?: CallOptions & AsAgent): Promise<readonly Prompt[]> {
    return this.#list('prompts/list', 'prompts', options);
  }

  getPrompt(
    name: string,
    args: Readonly<Record<string, string>> = {},
    options?: CallOptions & AsAgent,
  ): Promise<Answer<GetPromptResult>> {
    return this.#ask('prompts/get', () => JSON.stringify({ name, arguments: args }), options);
  }

  complete(
    ref: CompletionReference,
    argument: { readonly name: string; readonly value: string },
    options?: CallOptions & AsAgent,
  ): Promise<Answer<CompleteResult>> {
    return this.#ask('completion/complete', () => JSON.stringify({ ref, argument }), options);
  }

  registerServer(name: string, definition: ServerDefinition): Promise<GatewayServerStatus> {
    return this.#deps.servers.register(name, definition);
  }

  startServer(name: string, definition: ServerDefinition): Promise<GatewayServerStatus> {
    return this.#deps.servers.start(name, definition);
  }

  unregisterServer(name: string): Promise<boolean> {
    return this.#deps.servers.unregister(name);
  }

  async unregisterServers(): Promise<void> {
    await this.#deps.servers.unregisterAll();
  }

  capabilities(name: string): Capabilities | null {
    return this.#deps.servers.client(name)?.capabilities ?? null;
  }

  setTimeout(name: string, seconds: number): Promise<void> {
    return this.#deps.servers.setTimeout(name, seconds);
  }

  restart(name: string): Promise<GatewayServerStatus> {
    return this.#deps.servers.restart(name);
  }

  stopServer(name: string): Promise<GatewayServerStatus> {
    return this.#deps.servers.stop(name);
  }

  suspendServer(name: string): Promise<GatewayServerStatus> {
    return this.#deps.servers.suspend(name, true);
  }

  resumeServer(name: string): Promise<GatewayServerStatus> {
    return this.#deps.servers.suspend(name, false);
  }

  closeConnection(connection: ConnectionKey): boolean {
    return this.#deps.servers.closeConnection(connection);
  }

  registerAgent(name: string, servers: readonly string[], options: { readonly key?: string } = {}): Promise<void> {
    return this.#deps.agents.register(name, servers, options.key ?? null);
  }

  unregisterAgent(name: string): Promise<boolean> {
    return this.#deps.agents.unregister(name);
  }

  allowedServers(agent: string): readonly string[] | null {
    return this.#deps.agents.allowedServers(agent);
  }

  async handleInitialize(params: InitializeParams) {
    const { downstream, gateway, registry } = this.#deps.app.rooms;
    const message = request('initialize', '1', JSON.stringify(params), 'stateful');
    const introduction = readInitialize(message);
    if (introduction instanceof GatewayError) throw introduction;
    const session = downstream.sessions.create({
      principal: ANONYMOUS,
      endpoint: AGGREGATE,
      lasting: true,
      ...introduction,
    });
    const { firstListWaitMs } = registry.state;
    const answer = await initializeAnswer(gateway, message, AGGREGATE, session.client, firstListWaitMs);
    return { sessionId: session.mcpSessionId, result: parsed<InitializeResult>(answer.body) };
  }

  handleToolsList(params: { readonly cursor?: string } = {}): Promise<Answer<ToolsListResult>> {
    return this.#ask('tools/list', () => JSON.stringify(params));
  }

  handleToolsListForAgent(agent: string, params: { readonly cursor?: string } = {}): Promise<Answer<ToolsListResult>> {
    return this.#ask('tools/list', () => JSON.stringify(params), { agent });
  }

  handleToolsCall(
    params: ToolCallParams,
    options?: CallOptions & Pick<AsAgent, 'session'>,
  ): Promise<Answer<ToolCallResult>> {
    return this.#callInWords(undefined, params, options);
  }

  handleToolsCallForAgent(
    agent: string,
    params: ToolCallParams,
    options?: CallOptions & Pick<AsAgent, 'session'>,
  ): Promise<Answer<ToolCallResult>> {
    return this.#callInWords(agent, params, options);
  }

  connect({ agent, server }: AsAgent & { readonly server?: string } = {}): SdkTransport {
    this.#deps.servers.refuseClosed();
    const { principal } = this.#deps.agents.operator(agent).profile;
    if (server !== undefined && this.client(server) === null) {
      throw new GatewayError('INVALID_PARAMS', `there is no server ${server}`, { server });
    }
    return connectClient(
      this.#deps.app.rooms.downstream,
      principal,
      server === undefined ? AGGREGATE : serverEndpoint(server),
    );
  }

  listen(address: ListenAddress = {}): Promise<Listening> {
    this.#opening ??= this.#open(address).catch((error: unknown) => {
      this.#opening = null;
      throw error;
    });
    return this.#opening;
  }

  readonly handler = (request: IncomingMessage, response: ServerResponse): void => {
    this.#deps.app.mounted().serve(request, response);
  };

  get sse(): Gateway['sse'] {
    const { sse } = this.#deps.app.rooms.downstream;
    return {
      sessionCount: sse.sessionCount,
      broadcast: (method, params = {}) => sse.broadcast(notification(method, JSON.stringify(params), 'stateful')),
    };
  }

  async #open(address: ListenAddress): Promise<Listening> {
    const { app, overlay } = this.#deps;
    this.#deps.servers.refuseClosed();
    overlay.address = address;
    await app.overlaid();
    const problem = bindProblem(app.state);
    if (problem !== null) throw new OpenError('bind', problem);
    this.#listening = { ...(await app.listen()), controlToken: app.rooms.controlToken };
    return this.#listening;
  }

  async reload(): Promise<boolean> {
    return (await this.#deps.app.reload()).kind !== 'refused';
  }

  on<E extends keyof GatewayEvents>(event: E, listener: GatewayEvents[E]): () => void {
    return this.#deps.watch.on(event, listener);
  }

  setLogger(sink: LogSink | null): void {
    if (sink !== null) this.#deps.log.sink = sink;
  }

  async close(options: { readonly drainMs?: number } = {}): Promise<void> {
    const { app } = this.#deps;
    await this.#end(options.drainMs === undefined ? app.close('shutdown') : app.drain(options.drainMs));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** An operator drained this node: it ends by itself, as the command does. The program gets an event. */
  #drain(): void {
    if (this.#drainAsked) return;
    this.#drainAsked = true;
    const { app, watch } = this.#deps;
    watch.drainAsked();
    this.#end(app.drain()).catch((error: unknown) => app.rooms.logger.error('stop_failed', { error }));
  }

  async #end(work: Promise<void>): Promise<void> {
    await work.finally(() => this.#ended.resolve());
  }

  async #ask<T>(
    method: string,
    params: () => string,
    options: CallOptions & AsAgent = {},
    endpoint: Endpoint = AGGREGATE,
  ): Promise<Answer<T>> {
    return parsed<T>(
      await ask(this.#deps.agents.operator(options.agent, options.session), endpoint, method, params(), options),
    );
  }

  #list<T>(method: string, key: string, options: CallOptions & AsAgent = {}): Promise<readonly T[]> {
    return listAll<T>(this.#deps.agents.operator(options.agent, options.session), AGGREGATE, method, key, options);
  }

  async #callInWords(
    agent: string | undefined,
    params: ToolCallParams,
    options?: CallOptions & Pick<AsAgent, 'session'>,
  ): Promise<Answer<ToolCallResult>> {
    const operator = this.#deps.agents.operator(agent, options?.session);
    const message = await answered(operator, AGGREGATE, 'tools/call', JSON.stringify(params), options);
    if (message.kind === 'result') return parsed<ToolCallResult>(message.body);
    throw new ServerError(message.body.toString());
  }
}
