import { setTimeout as pause } from 'node:timers/promises';
import { renderProblem } from '../config/problem/problem.ts';
import type { GatewayFacts, Readiness } from '../control/schemas.ts';
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
import { ConditionWatch } from './condition-watch.ts';
import { FollowedConfiguration, NEED_RESTART } from './control-planes/followed-configuration.ts';
import { listenerSettings } from './listener-settings.ts';
import { type Addresses, Listeners, mcpListener } from './listeners.ts';
import { bodyBudgetBytes } from './memory/memory-limit.ts';
import { controlPlane } from './plane.ts';
import { Playground } from './playground/playground.ts';
import { PublicSubjects } from './public-subjects/public-subjects.ts';
import type { Rooms } from './rooms.ts';
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
const REST_MS = 2_000;
/** Time for answers in progress to finish at the end of a drain. */
const LAST_WORDS_MS = 1_000;
/** Interval of checks whether another process has written to the store of the data folder. */
const FOLDER_MS = 2_000;
/** The addresses before `listen`. */
const NOWHERE: Addresses = { mcpUrl: '', controlUrl: '' };

/**
 * One gateway: its components and its listeners. `listen` opens the ports before any server starts; `startServers` starts
 * the servers; `close` stops everything, always in the same order.
 */
export class App {
  readonly rooms: Rooms;
  readonly playground: Playground;
  readonly #follower: ConfigFollower;
  readonly configuration: FollowedConfiguration;
  readonly #reconciler: Reconciler;
  /** Null if no other node writes to the run-time store. */
  readonly #storeFollower: StoreFollower | null;
  /** Another process that uses the data folder may have changed the pins. */
  #pinsBehind = false;
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
  /** Names of the agents of the state in force. */
  #agents: ReadonlySet<string>;

  constructor(rooms: Rooms) {
    this.rooms = rooms;
    this.playground = new Playground(rooms);
    this.#agents = new Set(rooms.registry.state.agents.keys());
    const report = reloadReport(rooms.logger, rooms.metrics, rooms.loaded);
    this.#follower = new ConfigFollower({
      registry: rooms.registry,
      options: { ...rooms.options.load, secrets: async () => rooms.secrets.values },
      initial: rooms.loaded,
      report: (reload) => {
        report(reload);
        this.configuration.read(reload);
      },
    });
    this.configuration = new FollowedConfiguration(rooms, this.#follower, () => this.#unread);
    this.#reconciler = new Reconciler({
      ...rooms,
      sources: [
        { name: 'files', read: () => this.#readFiles() },
        { name: 'store', read: () => this.#readStore() },
      ],
      repair: () => rooms.upstreams.reconcile(),
    });
    this.#storeFollower = rooms.storeShared ? new StoreFollower({ ...rooms, changed: () => this.#readShared() }) : null;
    this.#conditions = new ConditionWatch(rooms, this.#reconciler, this.#storeFollower);
    if (!rooms.options.follow) this.#follower.unwatch();
    this.rooms.registry.onChange((change) => this.#apply(change));
    const { cluster, gateway, serverEvents } = rooms;
    cluster?.listen({
      nodesChanged: () => serverEvents.changed('nodes'),
      serversChanged: () => {
        gateway.desiredChanged((id) => this.#principal(id));
        this.#public?.sync();
      },
    });
  }

  get state(): DesiredState {
    return this.rooms.registry.state;
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
  async overlaid(): Promise<void> {
    this.rooms.registry.refresh();
    await this.#applied;
  }

  /** Opens the listeners. If it rejects, none is open, and it may be called again. */
  async listen(): Promise<Addresses> {
    const { rooms, state } = this;
    const listeners = (this.#listeners = new Listeners(rooms, state, controlPlane(rooms, this)));
    try {
      await listeners.open();
      const { load, words = null } = rooms.options;
      const startedAt = this.#startedAt.getTime();
      rooms.folder?.publish({ ...this.facts(), startedAt, words, command: load.argvCommand ?? null, cwd: load.cwd });
    } catch (error) {
      await listeners.close(0);
      this.#listeners = null;
      throw error;
    }
    rooms.listensAt(this.addresses.mcpUrl, state.listen.host);
    return this.addresses;
  }

  /** Returns the listener, always the same one, that serves requests of the embedding program's HTTP server. */
  mounted(): Listener {
    const plain = { ...this.state, listen: { ...this.state.listen, tls: null } };
    this.#mounted ??= mcpListener(this.rooms, plain, this);
    return this.#mounted;
  }

  /** Does nothing if the gateway was stopped while its ports were being opened. */
  startServers(): void {
    if (this.#stopping !== null) return;
    const { upstreams, downstream, logger, cluster } = this.rooms;
    if (cluster === null) upstreams.start();
    else {
      upstreams.guard();
      // Processes start under the fencing token of this node. Until then, other nodes serve.
      cluster.start();
      void cluster.joined(JOIN_MS).then(() => this.#stopping === null && upstreams.start());
      this.#public = PublicSubjects.open(this.rooms);
    }
    this.#reconciler.start();
    this.#conditions.start();
    if (this.#storeFollower !== null) {
      this.#storeFollower.start();
      followHints(this.rooms, () => this.#storeFollower?.hint());
    }
    if (this.rooms.options.follow && this.rooms.folderStore !== null) this.#watchFolder();
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
      configVersion: this.rooms.registry.version,
      processes: this.rooms.upstreams.processes,
      desiredProblems: this.#unread,
      conditions: this.#conditions.held,
      configProblem: problems.length === 0 ? null : problems.map((problem) => renderProblem(problem)).join('\n'),
    };
  }

  /** Why desired servers do not run, or could not be read. */
  get #unread(): readonly string[] {
    return [...this.#reconciler.alarms, ...this.rooms.runTime.problems, ...unreadable(this.rooms)];
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
    const { cluster } = this.rooms;
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
    if (this.#drained === null) this.#leadEnd = now + (this.#balanced ? NOT_READY_LEAD_MS : 0);
    this.#drainEnd = Math.min(this.#drainEnd, Math.max(now, this.#leadEnd) + drainMs);
    this.#drained ??= this.#drain();
    return this.#drained;
  }

  /** Whether a proxy or load balancer may be in front of this gateway. A lone gateway on loopback has none. */
  get #balanced(): boolean {
    return this.#listeners !== null && (this.rooms.cluster !== null || !isLoopbackHost(this.state.listen.host));
  }

  async #drain(): Promise<void> {
    this.#stopping ??= 'draining';
    const { downstream, cluster, ownCalls } = this.rooms;
    cluster?.drain();
    await this.#public?.close();
    while (performance.now() < this.#leadEnd && this.#closed === null) await pause(DRAIN_POLL_MS);
    let asked = this.#balanced;
    void this.#listeners?.stopAccepting(asked ? REST_MS : 0).then(() => {
      asked = false;
    });
    void this.#mounted?.stopAccepting();
    this.rooms.gateway.drain();
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
    await this.close('shutdown', LAST_WORDS_MS);
  }

  /** Ends the drain now, for an operator who does not wait for it. */
  hurry(): Promise<void> {
    return this.close('shutdown', LAST_WORDS_MS);
  }

  /** Cancels calls in flight; answers in progress get `graceMs` to finish. */
  close(how: CloseReason, graceMs = 0): Promise<void> {
    this.#closed ??= this.#close(how, graceMs);
    return this.#closed;
  }

  async #close(how: CloseReason, graceMs: number): Promise<void> {
    this.#stopping ??= 'stopping';
    for (const one of [this.#follower, this.rooms.registry, this.#reconciler, this.#conditions]) one.close();
    this.#storeFollower?.close();
    this.#unwatchFolder();
    const { rooms } = this;
    void this.#public?.close();
    rooms.gateway.close();
    rooms.downstream.close();
    const ended = rooms.upstreams.close(how);
    await Promise.all([this.#listeners?.close(graceMs), this.#mounted?.close(graceMs), ended]);
    await rooms.close();
  }

  /** Throws if the files cannot be applied; the state in force stays. */
  async #readFiles(): Promise<void> {
    if (!this.rooms.options.follow) return;
    const reload = await this.#follower.reread();
    if (reload.kind !== 'refused') return;
    throw new Error(reload.problems.map(({ code, message }) => `${code} ${message}`).join('; '));
  }

  /** Reads the stored secrets, and the definitions that refer to them. Resolves when they are in force. */
  async secretsChanged(): Promise<void> {
    await this.rooms.secrets.refresh();
    // Also if another reading found the change, because it may not be in force yet.
    await this.reload();
    if (await this.rooms.runTime.refresh()) this.rooms.registry.refresh();
  }

  async #readSecrets(): Promise<void> {
    if (await this.rooms.secrets.refresh()) await this.reload();
  }

  /** Another process may write to the store of the data folder: a command, or a gateway that a client started. */
  #watchFolder(): void {
    this.#unwatchFolder = this.rooms.clock.after(FOLDER_MS, () => {
      // An error here also occurs in the reconciler, which reports it.
      void this.#followFolder()
        .catch(() => {})
        .then(() => this.#stopping === null && this.#watchFolder());
    });
  }

  async #followFolder(): Promise<void> {
    const { folderStore } = this.rooms;
    // Opens the file if the other process has created it.
    await folderStore?.read([]);
    if (folderStore?.changedElsewhere?.() === true) await this.#readShared();
  }

  /** Another process or node has changed the store. */
  async #readShared(): Promise<void> {
    this.#pinsBehind = true;
    await this.rooms.credentials.refresh();
    await this.#readStore();
  }

  async #readStore(): Promise<void> {
    const { runTime, registry, runTimeStore, pins, gateway, serverEvents } = this.rooms;
    await this.#readSecrets();
    if (await runTime.refresh()) registry.refresh();
    this.#pinsBehind ||= runTimeStore.changedElsewhere?.() === true;
    if (!this.#pinsBehind) return;
    await pins.reload();
    this.#pinsBehind = false;
    gateway.drift.pinsChanged();
    serverEvents.changed('drift');
  }

  /** Returns the caller with this id and its current rights; null if the configuration does not admit it. */
  #principal(id: string): Principal | null {
    // Without a listener the only caller without a key is the program that started this process, on its pipes.
    const closed = this.#listeners === null && this.#mounted === null;
    const started = closed && id === ANONYMOUS.id ? ANONYMOUS : null;
    if (id === OPERATOR.id) return OPERATOR;
    return this.rooms.authenticator.principal(id) ?? started;
  }

  /** Deletes the credentials of removed agents, because another agent may get the same name. */
  #forgetAgents(now: DesiredState['agents']): void {
    const { credentials, logins, logger } = this.rooms;
    const gone = new Set([...this.#agents].filter((name) => !now.has(name)).map((name) => `agent:${name}`));
    this.#agents = new Set(now.keys());
    for (const { server, principal } of gone.size === 0 ? [] : credentials.list()) {
      if (principal === null || !gone.has(principal)) continue;
      logger.info('credential_forgotten', { server, principal, reason: 'the agent was removed' });
      logins
        .revoke(server, principal)
        .catch((error: unknown) => logger.warn('credential_not_forgotten', { server, principal, error }));
    }
  }

  #apply(change: RegistryChange): void {
    const { logger, upstreams, cluster, authenticator, downstream, gateway } = this.rooms;
    const { added, removed, changed, updated } = change.servers;
    const current = (id: string) => this.#principal(id);
    logger.info('config_applied', { version: change.version, added, removed, changed, settings: change.settings });
    logger.level = change.state.logLevel;
    authenticator.replace(change.state);
    this.#forgetAgents(change.state.agents);
    downstream.reauthorize(current);
    this.#listeners?.update(change.state);
    this.#mounted?.update(listenerSettings(change.state));
    this.rooms.bodies.totalBytes = bodyBudgetBytes(change.state.listen.maxBodyBytes);
    const fixed = this.#listeners === null ? [] : change.settings.filter((name) => NEED_RESTART.has(name));
    if (fixed.length > 0) logger.warn('config_needs_restart', { settings: fixed });
    const { maxProcesses, maxTimeoutMs, pool } = change.state;
    upstreams.limit({ maxProcesses, maxTimeoutMs, pool });
    this.#applied = (cluster ?? upstreams)
      .apply(change.state.servers)
      .catch((error: unknown) => logger.error('apply_failed', { error }));
    // The new servers are in use already; `apply` resolves when the replaced ones have ended.
    gateway.desiredChanged(current, updated);
  }
}
