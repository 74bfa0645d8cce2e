import { ConsoleFiles } from '../control/console-files.ts';
import { ControlApi } from '../control/control-api.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import { MetricsPage } from '../control/metrics-page.ts';
import type { LoginPages } from '../downstream/login-pages.ts';
import { isWildcardAddress } from '../http/address.ts';
import { Listener, type ListenerSettings } from '../http/listener/listener.ts';
import type { DesiredState } from '../model/desired-state.ts';
import { UP } from '../model/server-state.ts';
import { certificateProblem } from './certificate-problem.ts';
import { serveNodes } from './cluster/control-of-nodes.ts';
import type { Components } from './components.ts';
import { authority, controlSettings, listenerSettings } from './listener-settings.ts';
import { productVersion } from './version.ts';

export interface Addresses {
  readonly mcpUrl: string;
  readonly controlUrl: string;
}

type Ready = Pick<ControlPlane, 'readiness'>;

/** The listeners of a gateway: for clients, for operators, and for metrics if configured. All are open, or none. */
export class Listeners {
  readonly #mcp: Listener;
  readonly #control: Listener;
  /** The control listener with TLS for other machines; null without one. */
  readonly #remote: Listener | null;
  /** Null if metrics have no listener of their own. */
  readonly #metrics: Listener | null;
  readonly #metricsPage: MetricsPage;
  readonly #rates: ControlPlane['rates'];
  readonly #api: ControlApi;
  /** Answers control requests of other nodes; null for a lone gateway. */
  readonly #nodes: { close(): void } | null;
  readonly #logger: Components['logger'];
  readonly #pages: LoginPages;
  readonly #scheme: 'http' | 'https';
  #addresses: Addresses = { mcpUrl: '', controlUrl: '' };

  /** Throws if a certificate cannot be used. */
  constructor(components: Components, state: DesiredState, plane: ControlPlane) {
    const problem = certificateProblem(state);
    if (problem !== null) throw new Error(problem);
    const { logger, execToken, bodies } = components;
    this.#pages = components.loginPages;
    this.#rates = plane.rates;
    this.#scheme = state.listen.tls === null ? 'http' : 'https';
    this.#mcp = mcpListener(components, state, plane);
    this.#api = new ControlApi({ plane, execToken, logger });
    const controls = (settings: ListenerSettings, needsCertificate: boolean): Listener => {
      const listener = new Listener({ settings, log: logger, bodies, portFlag: '--control-port', usesReserve: true });
      this.#api.register(listener, needsCertificate);
      new ConsoleFiles().register(listener.routes);
      this.#metricsPage.register(listener, false);
      return listener;
    };
    this.#metricsPage = new MetricsPage(components.metrics, components.console.tokenDigests);
    const { own, remote } = controlSettings(state);
    this.#control = controls(own, false);
    this.#remote = remote === null ? null : controls(remote, state.control.tls?.clientCaFile != null);
    this.#nodes =
      components.connection === null ? null : serveNodes(components.connection.bus, plane, components.logger);
    this.#logger = logger;
    this.#metrics =
      state.metricsAddress === null ? null : this.#metricsListener(state, state.metricsAddress, components);
    this.#metricsPage.token = state.metricsToken?.reveal() ?? null;
  }

  /** Empty until the listeners are open. */
  get addresses(): Addresses {
    return this.#addresses;
  }

  /** Rejects with ListenError; the caller then closes the listeners that are open. */
  async open(): Promise<void> {
    const [main, side] = [await this.#mcp.listen(), await this.#control.listen()];
    const origin = `${this.#scheme}://${authority(main.host, main.port)}`;
    this.#addresses = { mcpUrl: `${origin}/mcp`, controlUrl: `http://${authority(side.host, side.port)}` };
    if (this.#remote !== null) {
      const { host, port } = await this.#remote.listen();
      this.#logger.info('control_listening', { url: `https://${authority(host, port)}` });
    }
    if (this.#metrics !== null) {
      const { host, port } = await this.#metrics.listen();
      this.#logger.info('metrics_listening', { url: `http://${authority(host, port)}/metrics` });
    }
    this.#pages.onListening(isWildcardAddress(main.host) ? null : origin);
    this.#rates.start();
  }

  /** Applies the settings that may change while the listeners are open. */
  update(state: DesiredState): void {
    this.#mcp.update(listenerSettings(state));
    this.#metricsPage.token = state.metricsToken?.reveal() ?? null;
  }

  /** Accepts no new clients, and closes connections idle for `restMs`. Resolves when no client can send a request. */
  stopAccepting(restMs: number): Promise<void> {
    return this.#mcp.stopAccepting(restMs);
  }

  /** Answers in progress get `graceMs` to finish. */
  async close(graceMs: number): Promise<void> {
    this.#rates.close();
    this.#nodes?.close();
    this.#api.close();
    const all = [this.#mcp, this.#control, this.#remote, this.#metrics];
    await Promise.all(all.map((listener) => listener?.close(graceMs)));
  }

  #metricsListener(
    state: DesiredState,
    address: { readonly host: string; readonly port: number },
    components: Components,
  ): Listener {
    const { allowedHosts } = listenerSettings(state);
    const listener = new Listener({
      settings: { ...listenerSettings(state, address), allowedHosts },
      log: components.logger,
      bodies: components.bodies,
      portFlag: 'metrics.listen',
    });
    this.#metricsPage.register(listener, true);
    return listener;
  }
}

/** Returns the listener for clients, which is not open yet. */
export function mcpListener(components: Components, state: DesiredState, app: Ready): Listener {
  const { downstream, logger, metrics, memory, bodies } = components;
  const refused = metrics.counter('trunkline_http_refused_total', 'Requests refused before any handler.', ['code']);
  const listener = new Listener({
    settings: listenerSettings(state),
    log: logger,
    memory,
    bodies,
    onRefused: (code) => refused.of(code).add(),
  });
  downstream.register(listener.routes);
  components.loginPages.register(listener.routes);
  registerProbes(listener, components, app);
  return listener;
}

/**
 * `/livez` (and `/healthz`): the event loop runs. `/readyz`: the gateway accepts calls, also with a failed server or a store
 * that no node reaches, because all nodes would otherwise be out of service. `/health`: counts without names for operators,
 * and the state of this node for nodes that do not reach it over the bus.
 */
function registerProbes(listener: Listener, { allUpstreams: upstreams, cluster }: Components, app: Ready): void {
  const live = {
    GET: (context: { json(status: number, text: string): void }) => context.json(200, '{"status":"live"}'),
  };
  listener.routes.add('/livez', live);
  listener.routes.add('/healthz', live);
  listener.routes.add('/readyz', {
    GET: (context) => {
      const { ready, reason } = app.readiness();
      if (ready) context.json(200, '{"status":"ready"}');
      else context.json(503, JSON.stringify({ status: 'not ready', reason }), ['Retry-After', '1']);
    },
  });
  listener.routes.add('/health', {
    GET: (context) => {
      const servers = upstreams.servers();
      const states = servers.map(({ name }) => upstreams.state(name));
      const up = states.filter((state) => state !== null && UP.has(state)).length;
      const { ready, reason, degraded } = app.readiness();
      const body = {
        status: !ready ? 'not ready' : degraded.length > 0 ? 'degraded' : 'ready',
        ...(ready ? {} : { reason }),
        version: productVersion(),
        servers: { total: servers.length, up },
        ...(degraded.length > 0 ? { degraded } : {}),
        ...(cluster === null ? {} : { node: { peer: cluster.view.peer, state: cluster.state } }),
      };
      context.json(ready ? 200 : 503, JSON.stringify(body));
    },
  });
}
