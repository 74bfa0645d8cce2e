import { CursorCodec } from '../catalog/cursor.ts';
import type { UserLogins } from '../model/credential-ports.ts';
import type { DesiredState } from '../model/desired-state.ts';
import type { Pins } from '../model/drift.ts';
import type { ClientStreams, TaskRecords } from '../model/ports.ts';
import type { Random } from '../model/random.ts';
import { sealingOf } from '../model/sealing.ts';
import type { ListKind } from '../model/server-catalog.ts';
import type { WatchedList } from '../model/watched-list.ts';
import { AccessView } from './access-view.ts';
import { Announcer } from './announcer.ts';
import { AnswerCache } from './cache/answer-cache.ts';
import type { CommonParts } from './common-parts.ts';
import { Dispatch, type ServerCalls } from './dispatch/dispatch.ts';
import { InputStates } from './dispatch/input-states.ts';
import { Drift } from './drift/drift.ts';
import { guardedUpstreams } from './drift/guarded-upstreams.ts';
import type { ExchangeRecordDeps } from './exchange-record.ts';
import type { KnownServers } from './known-servers.ts';
import type { ListParts } from './list-parts.ts';
import { Listens } from './listens.ts';
import { Catalogs } from './lists/catalogs.ts';
import { SeenSessions } from './lists/seen-sessions.ts';
import { LoginRequests } from './login-requests.ts';
import { Policies } from './policy/policies.ts';
import { Requests } from './requests.ts';
import { Aggregate } from './resolve/aggregate.ts';
import { AggregateExtensions } from './resolve/aggregate-extensions.ts';
import { LogLevels } from './resolve/log-levels.ts';
import { SingleServer } from './resolve/single-server.ts';
import { Sealer, StateSealer } from './sealer.ts';
import { ServerEvents } from './server-events.ts';
import { ResourceWatches } from './subscriptions/resource-watches.ts';
import { SharedListens } from './subscriptions/shared-listens.ts';
import { Subscriptions, type SubscriptionsElsewhere } from './subscriptions/subscriptions.ts';
import { Tasks } from './tasks/tasks.ts';

export interface GatewayDeps extends ExchangeRecordDeps {
  /** The name and version of the aggregate in its handshake. */
  readonly info: { readonly name: string; readonly title: string; readonly version: string };
  /**
   * Keys of 32 random bytes: the first seals cursors, task ids and states, all of them open. Sealed values stay valid as long
   * as the keys are kept over restarts.
   */
  readonly keys: readonly Buffer[];
  /** The current desired state; its settings are read at each request, so that a reload takes effect. */
  readonly desired: { readonly state: Pick<DesiredState, 'firstListWaitMs' | 'maxTimeoutMs'> };
  /** The approved definitions of servers. */
  readonly pins: Pins;
  /** The storage of tasks that outlives the process. */
  readonly taskRecords: TaskRecords;
  readonly random: Random;
  readonly logins: UserLogins;
  /** The modules on both sides and, in a cluster, the other nodes. Read at the first request or event. */
  readonly upstreams: KnownServers & ServerCalls;
  readonly streams: ClientStreams;
  readonly elsewhere: SubscriptionsElsewhere | null;
  /** Called when the listed tools, drift or tasks of a server changed. */
  readonly listChanged?: (list: WatchedList, server: string) => void;
  /** Called once for every session that ended. */
  readonly onSessionEnded?: (sessionId: string) => void;
}

/** The parts of the gateway. */
export type Parts = ReturnType<typeof assemble>;

export function assemble(deps: GatewayDeps, serverInfo: string) {
  const { upstreams: port, streams, elsewhere, logins } = deps;
  const { clock, random, keys, pins, logger, metrics, desired } = deps;
  const redefined = (server: string, lists: readonly ListKind[]) => {
    catalogs.invalidate();
    announcer.changed(server, null, lists);
  };
  const drift = new Drift({ pins, upstreams: port, clock, logger, metrics, redefined });
  const upstreams = guardedUpstreams(port, drift, logins);
  const policies = new Policies({ upstreams, clock, guards: drift.guards });
  const dispatch = new Dispatch({
    upstreams: port,
    known: upstreams,
    policies,
    states: new InputStates(
      sealingOf(keys, (key) => new StateSealer({ key, clock, random })),
      clock,
    ),
    clock,
    tracer: deps.tracer ?? null,
  });
  const sealing = sealingOf(keys, (key) => new Sealer(key));
  const common: CommonParts = { upstreams, dispatch, policies, streams, clock, desired, serverInfo };
  const cursors = new CursorCodec(keys);
  const catalogs = new Catalogs({ ...common, cursors });
  const sessions = new SeenSessions(catalogs);
  const cache = new AnswerCache({ ...common, metrics });
  const watches = new ResourceWatches(common);
  const sharedListens = new SharedListens({ ...common, cache });
  const lists: ListParts = { ...common, cursors, catalogs, sessions, cache, watches, sharedListens };
  const subscriptions = new Subscriptions({ ...lists, elsewhere });
  const tasks = new Tasks({
    ...lists,
    random,
    sealing,
    records: deps.taskRecords,
    changed: (server) => deps.listChanged?.('tasks', server),
  });
  const listens = new Listens({ ...lists, tasks });
  const announcer = new Announcer({ ...lists, listens });
  const logLevels = new LogLevels(lists);
  const aggregate = new Aggregate({ ...lists, logLevels, extensions: new AggregateExtensions(lists) });
  const single = new SingleServer({ ...lists, logLevels, drift });
  return {
    upstreams,
    streams,
    elsewhere,
    dispatch,
    cache,
    catalogs,
    sessions,
    subscriptions,
    watches,
    sharedListens,
    listens,
    announcer,
    tasks,
    events: new ServerEvents({ ...lists, announcer, tasks }),
    loginRequests: new LoginRequests({ ...lists, logins, random }),
    requests: new Requests({ ...lists, aggregate, single, subscriptions, listens, tasks }),
    drift,
    access: new AccessView(common),
  };
}
