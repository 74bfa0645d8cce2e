import { CursorCodec } from '../catalog/cursor.ts';
import type { DesiredState } from '../model/desired-state.ts';
import type { Pins } from '../model/drift.ts';
import type { ClientStreams, TaskRecords } from '../model/ports.ts';
import type { Random } from '../model/random.ts';
import { sealingOf } from '../model/sealing.ts';
import type { ListKind } from '../model/server-catalog.ts';
import { Announcer } from './announcer.ts';
import { AnswerCache } from './cache/answer-cache.ts';
import { Dispatch, type ServerCalls } from './dispatch/dispatch.ts';
import { InputStates } from './dispatch/input-states.ts';
import { Drift } from './drift/drift.ts';
import { guardedUpstreams } from './drift/guarded-upstreams.ts';
import type { ExchangeRecordDeps } from './exchange-record.ts';
import type { KnownServers } from './known-servers.ts';
import { Listens } from './listens.ts';
import { Catalogs } from './lists/catalogs.ts';
import { SeenSessions } from './lists/seen-sessions.ts';
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
  /** Who the aggregate says it is. */
  readonly info: { readonly name: string; readonly title: string; readonly version: string };
  /**
   * Of 32 random bytes each; the first seals cursors, task ids and states, what any of them sealed is ours. Kept over
   * restarts, those stay valid.
   */
  readonly keys: readonly Buffer[];
  /** The desired state in force; its settings are read at each request, so that a reload counts. */
  readonly desired: { readonly state: Pick<DesiredState, 'firstListWaitMs' | 'maxTimeoutMs'> };
  /** What was approved of servers. */
  readonly pins: Pins;
  /** Where tasks outlive the process. */
  readonly taskRecords: TaskRecords;
  readonly random: Random;
  /** Called once for every session that ended. */
  readonly onSessionEnded?: (sessionId: string) => void;
}

/** What the gateway is made of, between the rooms on its two sides. */
export type Parts = ReturnType<typeof assemble>;

export function assemble(
  deps: GatewayDeps,
  serverInfo: string,
  port: KnownServers & ServerCalls,
  streams: ClientStreams,
  elsewhere: SubscriptionsElsewhere | null,
) {
  const { clock, random, keys, desired, metrics } = deps;
  const redefined = (server: string, lists: readonly ListKind[]) => {
    catalogs.invalidate();
    announcer.changed(server, null, lists);
  };
  const { pins, logger } = deps;
  const drift = new Drift({ pins, upstreams: port, clock, logger, metrics, redefined });
  const upstreams = guardedUpstreams(port, drift);
  const policies = new Policies({ upstreams, clock, guards: drift.guards });
  const sealedStates = sealingOf(keys, (key) => new StateSealer({ key, clock, random }));
  const dispatch = new Dispatch({
    upstreams: port,
    known: upstreams,
    policies,
    states: new InputStates(sealedStates, clock),
    tracer: deps.tracer ?? null,
  });
  const cursors = new CursorCodec(keys);
  const sealing = sealingOf(keys, (key) => new Sealer(key));
  const catalogs = new Catalogs({ upstreams, policies, clock, cursors, serverInfo });
  const logLevels = new LogLevels(upstreams, dispatch, catalogs);
  const sessions = new SeenSessions(catalogs);
  const cache = new AnswerCache({ upstreams, dispatch, policies, clock, metrics });
  const watches = new ResourceWatches(upstreams, dispatch, clock);
  const sharedListens = new SharedListens({ upstreams, dispatch, clock, cache });
  const subscriptions = new Subscriptions({
    upstreams,
    dispatch,
    streams,
    sessions,
    watches,
    sharedListens,
    elsewhere,
  });
  const tasks = new Tasks({
    upstreams,
    dispatch,
    streams,
    sharedListens,
    clock,
    sealing,
    sessions,
    desired,
    random,
    records: deps.taskRecords,
  });
  const listens = new Listens({ upstreams, dispatch, clock, catalogs, cache, watches, sharedListens, tasks });
  const announcer = new Announcer({ upstreams, clock, streams, catalogs, sessions, listens });
  const aggregate = new Aggregate({
    upstreams,
    policies,
    catalogs,
    sessions,
    cursors,
    clock,
    extensions: new AggregateExtensions({ upstreams, dispatch, catalogs, clock, desired }),
    logLevels,
    serverInfo,
    desired,
  });
  const single = new SingleServer({ upstreams, dispatch, policies, cache, logLevels, clock, drift });
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
    events: new ServerEvents({ streams, catalogs, sessions, watches, announcer, tasks }),
    requests: new Requests({
      upstreams,
      dispatch,
      aggregate,
      single,
      cache,
      subscriptions,
      listens,
      tasks,
    }),
    drift,
  };
}
