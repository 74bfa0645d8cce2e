import type { Downstream } from '../../downstream/downstream.ts';
import { initializeAnswer } from '../../downstream/endpoints/handshake-answer.ts';
import { readInitialize } from '../../downstream/session/initialize.ts';
import { SessionManager } from '../../downstream/session/session-manager.ts';
import { bindProblem } from '../../http/listener/listen-error.ts';
import { OPERATOR, type Principal } from '../../model/client-profile.ts';
import { AGGREGATE, type Endpoint, serverEndpoint } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { notification, request } from '../../protocol/compose.ts';
import type { App } from '../app.ts';
import { localClient } from '../local-client.ts';
import { productVersion } from '../version.ts';
import type { Agents } from './agents.ts';
import type { AsAgent, Gateway, GatewayTool, Listening } from './gateway-api.ts';
import type { LogOutlet } from './log-outlet.ts';
import type { Answer, InitializeResult, Tool, ToolCallParams, ToolCallResult } from './mcp-types.ts';
import { ObjectTransport, type SdkTransport } from './object-transport.ts';
import { OpenError } from './open-errors.ts';
import { ask, askAsClient, type CallOptions, callParams, listAll, parsed } from './operator-calls.ts';
import type { ListenAddress, Overlay } from './overlay.ts';
import { ServerError } from './server-error.ts';
import type { ServerWatch } from './server-watch.ts';
import type { Servers } from './servers.ts';

export interface GatewayParts {
  readonly app: App;
  readonly overlay: Overlay;
  readonly servers: Servers;
  readonly agents: Agents;
  readonly watch: ServerWatch;
  readonly log: LogOutlet;
}

const SETTLE_MS = 60_000;

/** Returns the interface of an `App` for programs; see `Gateway`. */
export function embeddedGateway({ app, overlay, servers, agents, watch, log }: GatewayParts): Gateway {
  const { components } = app;
  const { downstream, clock, cluster, gateway, logger, registry } = components;
  const ended = Promise.withResolvers<void>();
  let opening: Promise<Listening> | null = null;
  let listening: Listening | null = null;
  const open = async (address: ListenAddress): Promise<Listening> => {
    servers.refuseClosed();
    overlay.address = address;
    await app.applyOverlay();
    const problem = bindProblem(app.state);
    if (problem !== null) throw new OpenError('bind', problem);
    listening = { ...(await app.listen()), controlToken: components.controlToken };
    return listening;
  };
  const end = (work: Promise<void>): Promise<void> => work.finally(() => ended.resolve());
  const close = ({ drainMs }: { readonly drainMs?: number } = {}): Promise<void> =>
    end(drainMs === undefined ? app.close('shutdown') : app.drain(drainMs));
  let drainAsked = false;
  /** An operator drains this node: it drains and closes by itself, and the program gets an event. */
  const drain = (): void => {
    if (drainAsked) return;
    drainAsked = true;
    watch.drainAsked();
    end(app.drain()).catch((error: unknown) => logger.error('stop_failed', { error }));
  };
  cluster?.listen({ drainAsked: drain });
  const list = <T>(method: string, key: string, { agent, session, ...options }: CallOptions & AsAgent = {}) =>
    listAll<T>(agents.operator(agent, session), { endpoint: AGGREGATE, method }, key, options);
  const asked = async <T>(
    method: string,
    params: object | string,
    options: CallOptions & AsAgent = {},
    endpoint = AGGREGATE,
  ): Promise<Answer<T>> => {
    const text = typeof params === 'string' ? params : JSON.stringify(params);
    const operator = agents.operator(options.agent, options.session);
    return parsed<T>(await ask(operator, { endpoint, method, params: text }, options));
  };
  const callAsStatefulClient = async (params: ToolCallParams, options: CallOptions & AsAgent = {}) => {
    const question = { endpoint: AGGREGATE, method: 'tools/call', params: JSON.stringify(params) };
    const message = await askAsClient(agents.operator(options.agent, options.session), question, options);
    if (message.kind === 'result') return parsed<ToolCallResult>(message.body);
    throw new ServerError(message.body.toString());
  };

  return {
    serverInfo: { name: 'trunkline', title: 'Trunkline', version: productVersion() },
    sessions: new SessionManager(downstream.sessions, () => clock.now()),
    router: servers.router,
    closed: ended.promise,
    get listening() {
      return listening;
    },
    get sse() {
      const { sse } = downstream;
      return {
        sessionCount: sse.sessionCount,
        broadcast: (method: string, params = {}) =>
          sse.broadcast(notification(method, JSON.stringify(params), 'stateful')),
      };
    },

    servers: () => servers.statuses(),
    activeServers: () => servers.active(),
    server: (name) => servers.status(name),
    capabilities: (name) => servers.client(name)?.capabilities ?? null,
    client: (name) => servers.client(name),
    ready: (options = {}) => servers.waitUntilSettled(options.servers ?? null, options.timeoutMs ?? SETTLE_MS),

    async tools({ agent, session } = {}) {
      const { profile } = agents.operator(agent, session);
      const catalog = await gateway.catalog(profile, registry.state.firstListWaitMs);
      return catalog.items('tools').map(({ exposed, server, item }): GatewayTool => {
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
    },
    async callTool(tool, args, options = {}) {
      const [name, endpoint] = typeof tool === 'string' ? [tool, AGGREGATE] : [tool.tool, serverEndpoint(tool.server)];
      return asked('tools/call', callParams(name, args, options.onProgress !== undefined), options, endpoint);
    },
    listResources: (options) => list('resources/list', 'resources', options),
    listResourceTemplates: (options) => list('resources/templates/list', 'resourceTemplates', options),
    readResource: (uri, options) => asked('resources/read', { uri }, options),
    listPrompts: (options) => list('prompts/list', 'prompts', options),
    getPrompt: (name, args = {}, options = {}) => asked('prompts/get', { name, arguments: args }, options),
    complete: (ref, argument, options) => asked('completion/complete', { ref, argument }, options),

    registerServer: (name, definition) => servers.register(name, definition),
    startServer: (name, definition) => servers.register(name, definition, true),
    unregisterServer: (name) => servers.unregister(name),
    unregisterServers: () => servers.unregisterAll(),
    setTimeout: (name, seconds) => servers.setTimeout(name, seconds),
    restart: (name) => servers.restart(name),
    stopServer: (name) => servers.stop(name),
    suspendServer: (name) => servers.suspend(name, true),
    resumeServer: (name) => servers.suspend(name, false),
    closeConnection: (connection) => servers.closeConnection(connection),
    logins: {
      list: () => components.logins.list(),
      async begin(name, redirectUri, principal = null) {
        const server = registry.state.servers.get(name);
        if (server === undefined) throw new GatewayError('INVALID_PARAMS', `there is no server '${name}' here`);
        return components.logins.begin(server, redirectUri, principal);
      },
      finish: (url) => components.logins.finish(url),
      ended: (id) => components.logins.ended(id),
      revoke: (name, principal = null) => components.logins.revoke(name, principal),
    },

    registerAgent: (name, allowed, { key } = {}) => agents.register(name, allowed, key ?? null),
    unregisterAgent: (name) => agents.unregister(name),
    allowedServers: (agent) => agents.allowedServers(agent),

    async handleInitialize(params) {
      const message = request('initialize', '1', JSON.stringify(params), 'stateful');
      const introduction = readInitialize(message);
      if (introduction instanceof GatewayError) throw introduction;
      const caller = { principal: OPERATOR, endpoint: AGGREGATE, persistent: true };
      const session = downstream.sessions.create({ ...caller, ...introduction });
      const answer = await initializeAnswer(gateway, message, AGGREGATE, session.client);
      return { sessionId: session.mcpSessionId, result: parsed<InitializeResult>(answer.body) };
    },
    handleToolsList: (params = {}) => asked('tools/list', params),
    handleToolsListForAgent: (agent, params = {}) => asked('tools/list', params, { agent }),
    handleToolsCall: (params, options) => callAsStatefulClient(params, options),
    handleToolsCallForAgent: (agent, params, options) => callAsStatefulClient(params, { ...options, agent }),

    connect({ agent, server } = {}) {
      servers.refuseClosed();
      const principal = agents.connect(agent);
      if (server !== undefined && servers.client(server) === null) {
        throw new GatewayError('INVALID_PARAMS', `there is no server ${server}`, { server });
      }
      return connectClient(downstream, principal, server === undefined ? AGGREGATE : serverEndpoint(server));
    },
    listen(address = {}) {
      opening ??= open(address).catch((error: unknown) => {
        opening = null;
        throw error;
      });
      return opening;
    },
    handler: (incoming, response) => app.mounted().serve(incoming, response),
    reload: async () => (await app.reload()).kind !== 'refused',
    on: (event, listener) => watch.on(event, listener),
    setLogger(sink) {
      if (sink !== null) log.sink = sink;
    },
    close,
    [Symbol.asyncDispose]: () => close(),
  };
}

/** Returns a `localClient` as a transport of the MCP SDK. */
function connectClient(downstream: Downstream, principal: Principal, endpoint: Endpoint): SdkTransport {
  const client = localClient(downstream, principal, endpoint, (text) => transport.deliver(text));
  const transport = new ObjectTransport(client);
  client.closed.then(() => transport.ended());
  return transport;
}
