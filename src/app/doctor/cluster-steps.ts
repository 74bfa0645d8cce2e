import type { Bus } from '../../bus/bus.ts';
import { KeyRing } from '../../bus/trust/key-ring.ts';
import { ReplayWindow, Signer, signedAt } from '../../bus/trust/signer.ts';
import type { Wire } from '../../bus/wire.ts';
import { BEATS } from '../../cluster/nodes/nodes.ts';
import { PROBLEMS } from '../../config/problem/problem-catalogue.ts';
import type { ControlPlane } from '../../control/control-plane.ts';
import type { NodesView, SharedPart } from '../../control/schemas.ts';
import { systemClock } from '../../model/clock.ts';
import { counted } from '../../model/counted.ts';
import type { ClusterSettings } from '../../model/desired-state.ts';
import { systemRandom } from '../../model/random.ts';
import type { RunTimeStore } from '../../store/run-time-store/run-time-store.ts';
import { Logger } from '../../telemetry/logger.ts';
import { askPeer } from '../cluster/control-of-nodes.ts';
import { joinCluster, openNats } from '../cluster/open-cluster.ts';
import { type DoctorStep, failed, ok, warning } from './doctor-step.ts';

/** Each node sends more than one heartbeat in that time. */
const LISTEN_MS = 1_500;
/** Difference of clocks that is reported. From 60 s on, nodes refuse each other's messages. */
const CLOCK_SKEW_WARNING_MS = 10_000;
const WINDOW_MS = 120_000;

/** Asks the control API of one node. */
export type AskNode = (operation: 'listNodes' | 'getGateway') => Promise<unknown>;

type GatewayAnswer = ReturnType<ControlPlane['facts']>;

/** What the heartbeats show about the nodes, by peer. */
interface Heartbeats {
  /** How far the clock of a node is ahead of the clock of this machine. */
  readonly aheadMs: ReadonlyMap<string, number>;
  /** Why the heartbeats of a node are refused. */
  readonly refused: ReadonlyMap<string, string>;
}

/**
 * Examines the cluster of the configuration: NATS as seen from here, the heartbeats of its nodes, and what one node reports
 * about all. Changes nothing. `own`: asks the gateway that runs here; if null, a node with a heartbeat is asked.
 */
export async function clusterSteps(
  settings: ClusterSettings,
  store: Pick<RunTimeStore, 'read'>,
  own: AskNode | null,
): Promise<readonly DoctorStep[]> {
  const lacks: string[] = [];
  const logger = Logger.silent();
  logger.subscribe(({ event, fields }) => event === 'bus_server_lacks' && lacks.push(String(fields['lack'])));
  const messenger = await openNats(settings, logger);
  const { bus, close } = joinCluster(messenger, { node: 'doctor', onBusLoss: 'fence' }, logger);
  try {
    const nats = natsStep(settings, bus, lacks);
    if (nats.state === 'failed') return [nats, ...(await nodeSteps(own, NOTHING)), await storeStep(settings, store)];
    const heartbeats = await listen(messenger.wire, new KeyRing(messenger.secrets, settings.name));
    const peers = [...heartbeats.aheadMs.keys()];
    const ask = own ?? (peers.length === 0 ? null : (operation: string) => askedOf(bus, peers, operation));
    return [nats, ...secretSteps(heartbeats), ...(await nodeSteps(ask, heartbeats)), await storeStep(settings, store)];
  } finally {
    await close();
  }
}

const NOTHING: Heartbeats = { aheadMs: new Map(), refused: new Map() };

function natsStep({ servers }: ClusterSettings, bus: Bus, lacks: readonly string[]): DoctorStep {
  const { state, server, version, lastError } = bus.status;
  if (state !== 'connected') {
    const fix = /auth|permission|user|nkey/i.test(lastError)
      ? 'correct cluster.credentials, or the permissions of this NATS user'
      : /cert|tls|ssl/i.test(lastError)
        ? 'correct cluster.tls, or the certificate of NATS'
        : 'start nats-server -js there, or correct cluster.nats';
    return failed('nats', `${servers.join(', ')}: ${lastError}`, fix);
  }
  const found = `${server}, nats-server ${version}`;
  if (lacks.length === 0) return ok('nats', `${found} with JetStream`);
  return failed('nats', `${found}: ${lacks.join('; ')}`, 'update nats-server, and start it with -js');
}

async function listen(wire: Wire, keys: KeyRing): Promise<Heartbeats> {
  const signer = new Signer(systemRandom.hex(8), keys, systemClock);
  const seen = new ReplayWindow(WINDOW_MS);
  const [aheadMs, refused] = [new Map<string, number>(), new Map<string, string>()];
  const subscription = wire.subscribe(`${BEATS}.*`, ({ subject, payload }) => {
    const from = subject.slice(BEATS.length + 1);
    const signed = signer.open(payload, subject, seen);
    if (typeof signed === 'string') refused.set(from, signed);
    else aheadMs.set(from, signedAt(payload) - systemClock.wall());
  });
  await new Promise((done) => setTimeout(done, LISTEN_MS));
  await subscription.close();
  return { aheadMs, refused };
}

function secretSteps({ aheadMs, refused }: Heartbeats): readonly DoctorStep[] {
  const late = [...refused.values()].filter((reason) => reason.includes('clock'));
  const others = refused.size - late.length;
  const found: DoctorStep[] = [];
  if (others > 0) {
    found.push(failed('secret', `${counted(others, 'node')} there sign with another secret`, PROBLEMS.TL1705.fix));
  } else if (aheadMs.size > 0) found.push(ok('secret', `that of ${counted(aheadMs.size, 'node')} there`));
  if (late.length > 0) found.push(failed('clocks', `a message is refused: ${late[0]}`, CLOCKS));
  return found;
}

const CLOCKS =
  'set the clocks of all machines by NTP, then restart the gateways that started with a wrong one: from a minute on nodes refuse each other';

/** Returns the steps from the report of one node about all. */
async function nodeSteps(ask: AskNode | null, { aheadMs }: Heartbeats): Promise<readonly DoctorStep[]> {
  if (ask === null) return [ok('nodes', 'none is heard')];
  let answers: readonly [NodesView, GatewayAnswer];
  try {
    answers = (await Promise.all([ask('listNodes'), ask('getGateway')])) as [NodesView, GatewayAnswer];
  } catch (error) {
    return [failed('nodes', `a node does not answer: ${(error as Error).message}`, 'check its machine and its log')];
  }
  const [{ nodes, shared }, { conditions }] = answers;
  const states = nodes.map(({ node, state }) => (state === 'ready' ? node : `${node} (${state})`));
  const lost = conditions.filter(({ name }) => name === 'node_lost').map(({ reason }) => reason);
  const steps: DoctorStep[] = [ok('nodes', states.join(', ')), ...lost.map((reason) => failed('nodes', reason, LOST))];
  const fenced = nodes.filter(({ state }) => state === 'fenced').map(({ node }) => node);
  if (fenced.length > 0) steps.push(failed('nodes', `without a lease: ${fenced.join(', ')}`, REMEDIES.lease));
  for (const { node, peer } of nodes) {
    const skewMs = aheadMs.get(peer) ?? 0;
    const text = `the clock of ${node} is ${Math.round(Math.abs(skewMs) / 1_000)} s ${skewMs > 0 ? 'ahead of' : 'behind'} that of this machine`;
    if (Math.abs(skewMs) >= CLOCK_SKEW_WARNING_MS) steps.push(warning('clocks', text, CLOCKS));
  }
  const versions = Map.groupBy(nodes, ({ version }) => version);
  if (versions.size > 1) {
    const texts = Array.from(versions, ([version, some]) => `${some.map(({ node }) => node).join(', ')} ${version}`);
    steps.push(warning('versions', texts.join('; '), 'bring all nodes to one version, one after the other'));
  }
  const ill = shared.filter(({ healthy }) => !healthy);
  return [...steps, ...ill.map(({ part, detail }) => failed(part, detail, REMEDIES[part]))];
}

const LOST =
  'restart them, or check their machines and their connection to NATS; servers that only they had are unreachable';
const REMEDIES: Readonly<Record<SharedPart['part'], string>> = {
  bus: "check that node's connection to NATS",
  lease: 'check its connection to NATS, and JetStream there',
  store: 'check the database or JetStream; until then the last state that was read applies',
  configuration: 'make the definitions in the files of the nodes alike',
};

async function storeStep({ store: url }: ClusterSettings, store: Pick<RunTimeStore, 'read'>): Promise<DoctorStep> {
  if (url === null) return ok('store', 'what is decided at run time is kept in JetStream');
  const { host, pathname } = new URL(url.reveal());
  try {
    await store.read([]);
    return ok('store', `PostgreSQL ${host}${pathname} answers`);
  } catch (error) {
    return failed('store', (error as Error).message, 'start the database, or correct cluster.store');
  }
}

/** Returns the answer of the first node that answers. */
async function askedOf(bus: Bus, [peer, ...others]: readonly string[], operation: string): Promise<unknown> {
  try {
    const { body } = await askPeer(bus, peer!, { operation, name: '', query: '', body: '' }).answer;
    return JSON.parse(body.toString());
  } catch (error) {
    if (others.length === 0) throw error;
    return askedOf(bus, others, operation);
  }
}
