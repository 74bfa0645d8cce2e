import { writtenValues } from '../config/server/written-values.ts';
import { AppFrames } from '../control/app-frames.ts';
import type { ControlPlane, DriftPlane } from '../control/control-plane.ts';
import type { DesiredView } from '../control/schemas.ts';
import { OutdatedDecision } from '../gateway/drift/drift.ts';
import { McpRegistry, namedRegistry, OFFICIAL_REGISTRY } from '../mcp-registry/mcp-registry.ts';
import type { SecretChanges } from '../model/credential-ports.ts';
import { serverEndpoint } from '../model/exchange.ts';
import { portOf } from '../model/host-address.ts';
import type { Outcome } from '../model/outcome.ts';
import type { SessionRecords } from '../model/ports.ts';
import { OfferedServers } from '../registry/offered-servers.ts';
import { PinsContended } from '../registry/pin-book.ts';
import { RunTimeProblem, storeProblem } from '../registry/run-time-problem.ts';
import { StoreError } from '../store/run-time-store/run-time-store.ts';
import { CallRates } from '../telemetry/call-rates.ts';
import { sessionLabel } from '../telemetry/session-label.ts';
import { ProcessUsages } from '../upstream/process/process-usage.ts';
import type { Components } from './components.ts';
import { accessPlane } from './control-planes/access-plane.ts';
import { clientLinks } from './control-planes/client-links.ts';
import { clusterPlane } from './control-planes/cluster-plane.ts';
import { sessionViews } from './control-planes/session-views.ts';
import { signInView } from './control-planes/sign-in-view.ts';
import { taskPlane } from './control-planes/task-plane.ts';
import { checkedSignIn } from './doctor/sign-in-steps.ts';
import { callParams, send } from './embedding/operator-calls.ts';
import { replay } from './replay/replay.ts';
import { testFile } from './replay/test-file.ts';
import { toolsPlane } from './tool-views.ts';

/** For the commands, which read answers of the control API. */
export type { CallLimits, ToolView } from '../control/control-plane.ts';
export type { DefinitionConflict, Live, NodeEntry, NodesView } from '../control/schemas.ts';
export type { ShownClient } from '../control/tool-schemas.ts';

/** Returns what the control API of this gateway works on. */
export function controlPlane(
  components: Components,
  app: Pick<ControlPlane, 'facts' | 'readiness' | 'stop' | 'configuration' | 'playground'> & {
    secretsChanged(): Promise<void>;
  },
): ControlPlane {
  const { allUpstreams: upstreams, clock, serverEvents, serverLogs, calls, downstream, operator, records } = components;
  return {
    upstreams,
    ownStatuses: () => components.upstreams.statuses(),
    usages: new ProcessUsages(),
    clock,
    cluster: clusterPlane(components, () => {
      const { desiredProblems, conditions } = app.facts();
      const unread = conditions.filter(({ name }) => name === 'store_unreachable').map(({ reason }) => reason);
      return [...new Set([...unread, ...desiredProblems])];
    }),
    drift: driftPlane(components),
    access: accessPlane(components),
    tasks: taskPlane(components),
    configuration: app.configuration,
    events: serverEvents.journal,
    logs: serverLogs.journal,
    calls,
    rates: new CallRates(calls, clock),
    runTime: components.runTime,
    offered: new OfferedServers({
      env: components.options.load.env,
      secrets: components.secrets.values,
      folder: components.options.load.cwd,
      address() {
        const url = new URL(app.facts().mcpUrl);
        return { host: url.hostname, port: portOf(url) };
      },
      desired: components.registry,
      runTime: components.runTime,
    }),
    async mcpRegistry() {
      const named = await namedRegistry(app.facts().files[0] ?? null, components.options.load.env);
      return new McpRegistry(named ?? OFFICIAL_REGISTRY, components.options.load.env);
    },
    recorder: components.recorder,
    console: components.console,
    logins: components.logins,
    clients: (agent) => clientLinks(components, app.facts(), agent),
    signIn: (server) => signInView(server, components),
    checkSignIn: (server) => checkedSignIn(server, components.credentials),
    tools: toolsPlane(components),
    playground: app.playground,
    appFrames: new AppFrames(clock),
    secrets: secretChanges(components, () => app.secretsChanged()),
    loginCallback: () => components.loginPages.callback,
    server: (name) => components.registry.state.servers.get(name) ?? null,
    desired: (server) => desiredView(components, server, app.configuration.refused(server)),
    writtenValues: ({ origin }) => writtenValues(origin),
    sessionId: (label) => sessionOf(label, records),
    facts: () => app.facts(),
    readiness: () => app.readiness(),
    stop: (now) => app.stop(now),
    openSessions: () => downstream.sessions.size,
    sessions: () => sessionViews(components),
    async endSession(label) {
      const id = await sessionOf(label, records);
      if (id === null) return false;
      const session = downstream.sessions.get(id);
      if (session !== undefined) downstream.sessions.end(session, 'ended by the operator');
      else downstream.sessions.forget(id);
      return true;
    },
    replay: (jsonl, options, gone) => replay(jsonl, options, components, gone),
    replayTest(jsonl, options) {
      const url = new URL(serverEndpoint(options.server).path, app.facts().mcpUrl).href;
      return testFile(jsonl, options, { url, keyIn: 'TRUNKLINE_KEY' });
    },
    async callTool(server, tool, argumentsJson, options) {
      const params = callParams(tool, argumentsJson.toString(), options.onProgress !== undefined);
      const question = { endpoint: serverEndpoint(server), method: 'tools/call', params };
      return outcomeJson(await send(operator, question, options));
    },
  };
}

/** Returns the id of the session with this label; null if there is none. */
async function sessionOf(label: string, records: SessionRecords): Promise<string | null> {
  let found: string | null = null;
  await records.visit(({ id }) => {
    if (sessionLabel(id) !== label) return false;
    found = id;
    return true;
  });
  return found;
}

/** `follow` applies a change. All operations reject with RunTimeProblem if the store fails. */
export function secretChanges(
  { secrets, keyRotation }: Pick<Components, 'secrets' | 'keyRotation'>,
  follow: () => Promise<void>,
): SecretChanges {
  const guarded = async <T>(work: () => Promise<T>, refusal = storeProblem): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      throw refusal(error);
    }
  };
  const followed = async <T>(change: () => Promise<T>): Promise<T> => {
    const done = await guarded(change);
    await guarded(follow, notFollowed);
    return done;
  };
  return {
    list: () => guarded(() => secrets.list()),
    put: (name, value) => followed(() => secrets.put(name, value)),
    delete: (name) => followed(() => secrets.delete(name)),
    rotateKey: () => guarded(() => keyRotation.rotate()),
  };
}

/** The problem if the store fails after a change was stored in it. */
function notFollowed(error: unknown): unknown {
  if (!(error instanceof StoreError)) return error;
  const message = `the change is stored, and takes effect when the store can be read again: ${error.message}`;
  return new RunTimeProblem('outcome_unknown', message, { cause: error });
}

function desiredView({ runTime, registry }: Components, name: string, refused: string | null): DesiredView | null {
  const found = runTime.provenance(name);
  if (found === null) return null;
  const { source, suspended, revision, expiresAt, sessionId } = found;
  const origin = source === 'file' ? registry.state.servers.get(name)?.origin : undefined;
  return {
    source,
    suspended,
    refused: source === 'file' ? refused : null,
    origin: origin === undefined ? null : origin.line > 0 ? `${origin.file}:${origin.line}` : origin.file,
    revision,
    expiresAt: expiresAt === null ? null : new Date(expiresAt).toISOString(),
    session: sessionId === null ? null : sessionLabel(sessionId),
  };
}

/** Pins and drift of this gateway, for its operator. */
function driftPlane({ gateway: { drift }, undecidable, serverEvents }: Components): DriftPlane {
  const decided = async (server: string, decide: () => Promise<void>): Promise<void> => {
    if (undecidable !== null) throw new RunTimeProblem('no_shared_store', undecidable);
    try {
      await decide();
      serverEvents.changed('drift', server);
    } catch (error) {
      if (error instanceof OutdatedDecision) throw new RunTimeProblem('definition_outdated', error.message);
      if (!(error instanceof StoreError) && !(error instanceof PinsContended)) throw error;
      throw new RunTimeProblem('decision_not_stored', `nothing was decided: ${error.message}`, { cause: error });
    }
  };
  return {
    report: (server) => drift.report(server),
    summary: (server) => drift.summary(server),
    history: (server, options) => drift.history(server, options),
    approve: (server, decisions, by) => decided(server, () => drift.approve(server, decisions, by)),
    block: (server, names, by) => decided(server, () => drift.block(server, names, by)),
  };
}

/** Returns an outcome as JSON text; the server's result or error is byte for byte as the server wrote it. */
function outcomeJson(outcome: Outcome): Buffer {
  if (outcome.kind === 'failure') {
    const { error } = outcome;
    const body = { code: error.rpcCode, name: error.code, message: error.message, data: error.data };
    return Buffer.from(JSON.stringify({ outcome: error.outcome, error: body }));
  }
  const { message } = outcome;
  const member = message.kind === 'error' ? 'error' : 'result';
  return Buffer.concat([Buffer.from(`{"outcome":"RESULT","${member}":`), message.body, Buffer.from('}')]);
}
