import { setTimeout as pause } from 'node:timers/promises';
import { renderProblem } from '../config/problem/problem.ts';
import type { GatewayFacts, Readiness } from '../control/schemas.ts';
import { bindProblem } from '../http/listener/listen-error.ts';
import type { Listener } from '../http/listener/listener.ts';
import { ANONYMOUS, OPERATOR, type Principal } from '../model/client-profile.ts';
import type { DesiredState } from '../model/desired-state.ts';
import { isLoopbackHost } from '../model/host-address.ts';
import { ConfigFollower } from '../registry/config-follower.ts';
import { Reconciler } from '../registry/reconciler.ts';
import type { RegistryChange } from '../registry/registry.ts';
import { type Reload, reloadReport } from '../registry/reload-report.ts';
import { StoreFollower } from '../registry/store-follower.ts';
import type { CloseReason } from '../upstream/transport/transport.ts';
import type { Components } from './components.ts';
import { ConditionWatch } from './condition-watch.ts';
import { FollowedConfiguration } from './control-planes/followed-configuration.ts';
import { listenerSettings } from './listener-settings.ts';
import { type Addresses, Listeners, mcpListener } from './listeners.ts';
import { bodyBudgetBytes } from './memory/memory-limit.ts';
import { controlPlane } from './plane.ts';
import { Playground } from './playground/playground.ts';
import { PublicSubjects } from './public-subjects/public-subjects.ts';
import { RemovedAgents } from './removed-agents.ts';
import { followHints } from './run-time-store/follow-hints.ts';
import { unreadable } from './run-time-store/stored-secrets.ts';
import { productVersion } from './version.ts';

/** Load balancers poll `/readyz` about once a second and send new calls until then. */
const NOT_READY_LEAD_MS = 2_000;
const DRAIN_MS = 30_000;
const DRAIN_POLL_MS = 20;
/** The longest wait for the lease before the servers of this node start. */
const JOIN_MS = 3_000;
/** While draining, idle keep-alive connections are closed after this time; busy ones are closed with their next answer. */
const IDLE_TIMEOUT_MS = 2_000;
/** Time for answers in progress to finish at the end of a drain. */
const RESPONSE_GRACE_MS = 1_000;
/** Interval of checks whether another process has written to the store of the data folder. */
const FOLDER_MS = 2_000;
/** The addresses before `listen`. */
const NOWHERE: Addresses = { mcpUrl: '', controlUrl: '' };

/**
 * One gateway: its components and its listeners. `listen` opens the ports before any server starts; `startServers` starts
 * the servers; `close` stops everything, always in the same order.
 */
export class App {
  readonly components: Components;
  readonly playground: Playground;
  readonly #follower: ConfigFollower;
  readonly configuration: FollowedConfiguration;
  readonly #reconciler: Reconciler;
  /** Null if no other node writes to the run-time store. */
  readonly #storeFollower: StoreFollower | null;
  /** Changes of the store by other processes and nodes, and how many of them had been made when all of it was read last. */
  #changes = 0;
  #readChanges = 0;
  readonly #startedAt = new Date();
  /** Ends the process; null if the process belongs to an embedding program. */
  stopProcess: ((now: boolean) => void) | null = null;
  #listeners: Listeners | null = null;
  /** Serves the requests of an HTTP server of the embedding program. */
  #mounted: Listener | null = null;
  #public: PublicSubjects | null = null;
  readonly #conditions: ConditionWatch;
  #stopping: string | null = null;
  #closed: Promise<void> | null = null;
  #drained: Promise<void> | null = null;
  #leadEnd = 0;
  #drainEnd = Number.POSITIVE_INFINITY;
  #applied: Promise<void> = Promise.resolve();
  #unwatchFolder: () => void = () => {};
  readonly #agents: RemovedAgents;

  constructor(components: Components) {
    this.components = components;
    this.playground = new Playground(components);
    this.#agents = new RemovedAgents(components);
    const report = reloadReport(components.logger, components.metrics, components.loaded);
    this.#follower = new ConfigFollower({
      registry: components.registry,
      options: { ...components.options.load, secrets: async () => components.secrets.values },
      initial: components.loaded,
      report: (reload) => {
        report(reload);
        this.configuration.onReload(reload);
      },
    });
    this.configuration = new FollowedConfiguration(components, this.#follower, () => this.#unread);
    this.#reconciler = new Reconciler({
      ...components,
      sources: [
        { name: 'files', read: () => this.#readFiles() },
        { name: 'store', read: () => this.#readStore() },
      ],
      repair: () => components.upstreams.reconcile(),
    });
    this.#storeFollower = components.storeShared
      ? new StoreFollower({ ...components, onChange: () => this.#readShared() })
      : null;
    this.#conditions = new ConditionWatch(components, this.#reconciler, this.#storeFollower);
    if (!components.options.follow) this.#follower.unwatch();
    this.components.registry.onChange((change) => this.#apply(change));
    const { cluster, gateway, serverEvents } = components;
    cluster?.listen({
      nodesChanged: () => serverEvents.changed('nodes'),
      serversChanged: () => {
        gateway.desiredChanged(this.#principal);
        this.#public?.sync();
      },
    });
  }

  get state(): DesiredState {
    return this.components.registry.state;
  }

  get addresses(): Addresses {
    return this.#listeners?.addresses ?? NOWHERE;
  }

  reload(): Promise<Reload> {
    return this.#follower.reload();
  }

  /** Reads the desired state and applies it now, instead of within 30 s. Never rejects. */
  reconcile(): Promise<void> {
    return this.#reconciler.run();
  }

  /**
   * Applies the overlay of the options again. Resolves when removed servers have finished their calls in flight and have
   * ended; added ones may still be starting.
   */
  async applyOverlay(): Promise<void> {
    this.components.registry.refresh();
    await this.#applied;
  }

  /** Opens the listeners. If it rejects, none is open, and it may be called again. */
  async listen(): Promise<Addresses> {
    const { components, state } = this;
    const listeners = (this.#listeners = new Listeners(components, state, controlPlane(components, this)));
    this.configuration.listening(state);
    try {
      await listeners.open();
      const { load, restartArgs = null } = components.options;
      const startedAt = this.#startedAt.getTime();
      const command = load.argvCommand ?? null;
      components.folder?.publish({ ...this.facts(), startedAt, words: restartArgs, command, cwd: load.cwd });
    } catch (error) {
      await listeners.close(0);
      this.#listeners = null;
      throw error;
    }
    components.setListenAddress(this.addresses.mcpUrl, state.listen.host);
    return this.addresses;
  }

  /** Returns the listener, always the same one, that serves requests of the embedding program's HTTP server. */
  mounted(): Listener {
    const plain = { ...this.state, listen: { ...this.state.listen, tls: null } };
    this.#mounted ??= mcpListener(this.components, plain, this);
    return this.#mounted;
  }

  /** Does nothing if the gateway was stopped while its ports were being opened. */
  startServers(): void {
    if (this.#stopping !== null) return;
    const { upstreams, downstream, logger, cluster } = this.components;
    if (cluster === null) upstreams.start();
    else {
      upstreams.guard();
      // Processes start under the fencing token of this node. Until then, other nodes serve.
      cluster.start();
      void cluster.joined(JOIN_MS).then(() => this.#stopping === null && upstreams.start());
      this.#public = PublicSubjects.open(this.components);
    }
    this.#reconciler.start();
    this.#conditions.start();
    if (this.#storeFollower !== null) {
      this.#storeFollower.start();
      followHints(this.components, () => this.#storeFollower?.hint());
    }
    if (this.components.options.follow && this.components.folderStore !== null) this.#watchFolder();
    downstream.sessions.clean().catch((error: unknown) => logger.warn('sessions_not_cleaned', { error }));
  }

  facts(): GatewayFacts {
    const problems = this.#follower.problems;
    return {
      version: productVersion(),
      pid: process.pid,
      startedAt: this.#startedAt.toISOString(),
      ...this.addresses,
      files: this.state.files,
      configVersion: this.components.registry.version,
      processes: this.components.upstreams.processes,
      desiredProblems: this.#unread,
      conditions: this.#conditions.held,
      configProblem: problems.length === 0 ? null : problems.map((problem) => renderProblem(problem)).join('\n'),
    };
  }

  /** Why desired servers do not run, or could not be read. */
  get #unread(): readonly string[] {
    return [...this.#reconciler.alarms, ...this.components.runTime.problems, ...unreadable(this.components)];
  }

  /** Stops the process for an operator; returns false if an embedding program owns it. */
  stop(now: boolean): boolean {
    this.stopProcess?.(now);
    return this.stopProcess !== null;
  }

  /** Why this gateway accepts nothing new; null while it does. */
  get stopping(): string | null {
    return this.#stopping;
  }

  /** A fault that all nodes have does not make a node unready: load balancers would refuse the calls that succeed. */
  readiness(): Readiness {
    const { cluster } = this.components;
    const reason = this.#stopping ?? cluster?.notReady ?? null;
    const store = this.#storeFollower?.problem == null ? [] : ['the store of the cluster cannot be read'];
    const degraded = [...(cluster?.degraded ?? []), ...store];
    return { ready: reason === null, reason: reason ?? '', degraded };
  }

  /**
   * Shuts down gracefully (F33): reports not ready, opens no sessions, finishes calls in flight within `drainMs`, completes
   * listening streams, stops servers and writes state. A second call can only shorten the drain.
   */
  drain(drainMs = DRAIN_MS): Promise<void> {
    const now = performance.now();
    if (this.#drained === null) this.#leadEnd = now + (this.#mayHaveLoadBalancer ? NOT_READY_LEAD_MS : 0);
    this.#drainEnd = Math.min(this.#drainEnd, Math.max(now, this.#leadEnd) + drainMs);
    this.#drained ??= this.#drain();
    return this.#drained;
  }

  /** Whether a proxy or load balancer may be in front of this gateway. A lone gateway on loopback has none. */
  get #mayHaveLoadBalancer(): boolean {
    return this.#listeners !== null && (this.components.cluster !== null || !isLoopbackHost(this.state.listen.host));
  }

  async #drain(): Promise<void> {
    this.#stopping ??= 'draining';
    const { downstream, cluster, ownCalls } = this.components;
    cluster?.drain();
    await this.#public?.close();
    while (performance.now() < this.#leadEnd && this.#closed === null) await pause(DRAIN_POLL_MS);
    let asked = this.#mayHaveLoadBalancer;
    void this.#listeners?.stopAccepting(asked ? IDLE_TIMEOUT_MS : 0).then(() => {
      asked = false;
    });
    void this.#mounted?.stopAccepting();
    this.components.gateway.drain();
    downstream.drain();
    // Other nodes can relay the answers to calls that wait for input of their clients.
    const ofOthers = (): number => (cluster === null ? 0 : cluster.inFlight + downstream.waitingForInput);
    const ofPrograms = (): number => ownCalls.inFlight + (this.#public?.inFlight ?? 0);
    const inFlight = (): number => downstream.inFlight + ofOthers() + ofPrograms();
    const due = (): boolean => this.#closed === null && performance.now() < this.#drainEnd;
    while (due() && asked) await pause(DRAIN_POLL_MS);
    // From now on only other nodes call this node; they would never stop using what it owns.
    cluster?.handOver();
    while (due() && inFlight() > 0) await pause(DRAIN_POLL_MS);
    await this.close('shutdown', RESPONSE_GRACE_MS);
  }

  /** Ends the drain now, for an operator who does not wait for it. */
  stopNow(): Promise<void> {
    return this.close('shutdown', RESPONSE_GRACE_MS);
  }

  /** Cancels calls in flight; answers in progress get `graceMs` to finish. */
  close(how: CloseReason, graceMs = 0): Promise<void> {
    this.#closed ??= this.#close(how, graceMs);
    return this.#closed;
  }

  async #close(how: CloseReason, graceMs: number): Promise<void> {
    this.#stopping ??= 'stopping';
    for (const one of [this.#follower, this.components.registry, this.#reconciler, this.#conditions]) one.close();
    this.#storeFollower?.close();
    this.#unwatchFolder();
    const { components } = this;
    void this.#public?.close();
    components.gateway.close();
    components.downstream.close();
    const ended = components.upstreams.close(how);
    await Promise.all([this.#listeners?.close(graceMs), this.#mounted?.close(graceMs), ended]);
    await components.close();
  }

  /** Throws if the files cannot be applied; the state in force stays. */
  async #readFiles(): Promise<void> {
    if (!this.components.options.follow) return;
    const reload = await this.#follower.reload();
    if (reload.kind !== 'refused') return;
    throw new Error(reload.problems.map(({ code, message }) => `${code} ${message}`).join('; '));
  }

  /** Reads the stored secrets, and the definitions that refer to them. Resolves when they are in force. */
  async secretsChanged(): Promise<void> {
    await this.components.secrets.refresh();
    // Also if another reading found the change, because it may not be in force yet.
    await this.reload();
    if (await this.components.runTime.refresh()) this.components.registry.refresh();
  }

  /** Another process may write to the store of the data folder: a command, or a gateway that a client started. */
  #watchFolder(): void {
    this.#unwatchFolder = this.components.clock.after(FOLDER_MS, () => {
      // An error here also occurs in the reconciler, which reports it.
      void this.#followFolder()
        .catch(() => {})
        .then(() => this.#stopping === null && this.#watchFolder());
    });
  }

  async #followFolder(): Promise<void> {
    const { folderStore } = this.components;
    // Opens the file if the other process has created it.
    await folderStore?.read([]);
    if (folderStore?.changedElsewhere?.() === true) await this.#readShared();
  }

  /** Another process or node has changed the store. */
  #readShared(): Promise<void> {
    this.#changes++;
    return this.#readStore();
  }

  async #readStore(): Promise<void> {
    const { secrets, credentials, runTime, registry, runTimeStore, pins, gateway, serverEvents } = this.components;
    if (await secrets.refresh()) await this.reload();
    // Here the file is open, even if another process has created it.
    if (runTimeStore.changedElsewhere?.() === true) this.#changes++;
    const changes = this.#changes;
    if (changes !== this.#readChanges) await credentials.refresh();
    if (await runTime.refresh()) registry.refresh();
    if (changes === this.#readChanges) return;
    await pins.reload();
    this.#readChanges = changes;
    gateway.drift.pinsChanged();
    serverEvents.changed('drift');
  }

  /** Returns the caller with this id and its current rights; null if the configuration does not admit it. */
  readonly #principal = (id: string): Principal | null => {
    // Without a listener the only caller without a key is the program that started this process, on its pipes.
    const closed = this.#listeners === null && this.#mounted === null;
    const started = closed && id === ANONYMOUS.id ? ANONYMOUS : null;
    if (id === OPERATOR.id) return OPERATOR;
    return this.components.authenticator.principal(id) ?? started;
  };

  /** Applies the rights that agents have now. `filtered`: servers whose tools are filtered otherwise now. */
  reauthorize(filtered: Iterable<string> = []): void {
    this.components.downstream.reauthorize(this.#principal);
    this.components.gateway.desiredChanged(this.#principal, filtered);
  }

  #apply(change: RegistryChange): void {
    const { logger, upstreams, cluster, authenticator } = this.components;
    const { added, removed, changed, updated } = change.servers;
    logger.info('config_applied', { version: change.version, added, removed, changed, settings: change.settings });
    logger.level = change.state.logLevel;
    const exposed = this.#listeners === null ? null : bindProblem(change.state);
    if (exposed !== null) logger.warn('unknown_callers_refused', { reason: exposed });
    authenticator.replace(change.state, exposed !== null);
    this.#agents.forget(change.state.agents);
    this.#listeners?.update(change.state);
    this.#mounted?.update(listenerSettings(change.state));
    this.components.bodies.totalBytes = bodyBudgetBytes(change.state.listen.maxBodyBytes);
    const fixed = this.#listeners === null ? [] : this.configuration.needRestart(change);
    if (fixed.length > 0) logger.warn('config_needs_restart', { settings: fixed });
    const { maxProcesses, maxTimeoutMs, pool } = change.state;
    upstreams.limit({ maxProcesses, maxTimeoutMs, pool });
    this.#applied = (cluster ?? upstreams)
      .apply(change.state.servers)
      .catch((error: unknown) => logger.error('apply_failed', { error }));
    // The new servers are in use already; `apply` resolves when the replaced ones have ended.
    this.reauthorize(updated);
  }
}
