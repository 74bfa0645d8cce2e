import { duration, UNNAMED_CLIENT } from '../../../../src/model/call-labels.ts';
import { counted } from '../../../../src/model/counted.ts';
import { listSessions, type Node, type Server, type Session } from '../../api/operations.ts';
import { useReading } from '../../parts/reading.ts';
import { NODE_TONES, toneOf } from '../../parts/status.tsx';
import { href } from '../../router.ts';
import { observed, serverList } from '../../servers.ts';
import { callers, type Edge, edgeOf, edges, nodeStats } from './rates.ts';

const WIDTH = 960;
const BOX = { width: 200, height: 34, gap: 10 };
const X = { clients: 0, nodes: (WIDTH - BOX.width) / 2, servers: WIDTH - BOX.width };
/** More of them are one box that counts. */
const MAX_BOXES = 24;

interface Box {
  readonly key: string;
  readonly label: string;
  readonly detail: string;
  readonly tone: string;
  readonly y: number;
  readonly href: string;
}

/** Clients, nodes and servers, with what goes between them at the moment. */
export function Topology({ nodes }: { readonly nodes: readonly Node[] }) {
  const sessions = useReading(() => listSessions(), '', { sessions: true });
  const clients = clientBoxes(sessions.value.value?.sessions ?? [], callers.value);
  const centre = nodeBoxes(nodes);
  const servers = serverBoxes(serverList.value);
  const height = Math.max(clients.length, centre.length, servers.length, 1) * (BOX.height + BOX.gap) + BOX.gap;
  return (
    <section aria-labelledby="topology">
      <h2 id="topology">What is connected</h2>
      <div class="topology">
        <svg
          viewBox={`0 0 ${WIDTH} ${height}`}
          role="group"
          aria-label={[
            counted(clients.length, 'client'),
            counted(centre.length, 'node'),
            counted(servers.length, 'server'),
          ].join(', ')}
        >
          {clients.flatMap((client) =>
            centre.map((node) => (
              <Flow
                key={`${client.key}>${node.key}`}
                edge={edges.value.get(edgeOf.client(client.key, node.key))}
                path={curve(X.clients + BOX.width, middle(client), X.nodes, middle(node))}
              />
            )),
          )}
          {centre.flatMap((node) =>
            servers.map((server) => (
              <Flow
                key={`${node.key}>${server.key}`}
                edge={edges.value.get(edgeOf.server(node.key, server.key))}
                path={curve(X.nodes + BOX.width, middle(node), X.servers, middle(server))}
              />
            )),
          )}
          {clients.map((client) => (
            <Traffic
              key={client.key}
              keys={centre.map((node) => edgeOf.client(client.key, node.key))}
              x={X.clients + BOX.width + 8}
              y={middle(client) - 5}
              anchor="start"
            />
          ))}
          {servers.map((server) => (
            <Traffic
              key={server.key}
              keys={centre.map((node) => edgeOf.server(node.key, server.key))}
              x={X.servers - 8}
              y={middle(server) - 5}
              anchor="end"
            />
          ))}
          {clients.map((box) => (
            <BoxView key={box.key} box={box} x={X.clients} />
          ))}
          {centre.map((box) => (
            <BoxView key={box.key} box={box} x={X.nodes} />
          ))}
          {servers.map((box) => (
            <BoxView key={box.key} box={box} x={X.servers} />
          ))}
        </svg>
      </div>
    </section>
  );
}

function Flow({ edge, path }: { readonly edge: Edge | undefined; readonly path: string }) {
  const state = edge === undefined || !isBusy(edge) ? '' : edge.errors > 0 ? 'failing' : 'busy';
  return <path class={`edge ${state}`} d={path} />;
}

interface TrafficProps {
  /** Of the edges of one box. */
  readonly keys: readonly string[];
  readonly x: number;
  readonly y: number;
  readonly anchor: 'start' | 'end';
}

/** Rate, latency and errors of a client or server, over all nodes. */
function Traffic({ keys, x, y, anchor }: TrafficProps) {
  const words = trafficOf(keys);
  if (words === '') return null;
  return (
    <text class="flow" x={x} y={y} text-anchor={anchor}>
      {words}
    </text>
  );
}

/** Empty where nothing goes there. */
function trafficOf(keys: readonly string[]): string {
  const busy = keys.flatMap((key) => edges.value.get(key) ?? []).filter(isBusy);
  if (busy.length === 0) return '';
  const perSecond = busy.reduce((sum, edge) => sum + edge.perSecond, 0);
  const errors = busy.reduce((sum, edge) => sum + edge.errors, 0);
  const times = busy.flatMap(({ p95 }) => p95 ?? []);
  return [
    `${perSecond < 10 ? perSecond.toFixed(1) : Math.round(perSecond)}/s`,
    ...(times.length === 0 ? [] : [duration(Math.max(...times))]),
    ...(errors === 0 ? [] : [`${errors} failed`]),
  ].join(' ');
}

function isBusy({ perSecond, inFlight }: Edge): boolean {
  return perSecond > 0 || inFlight > 0;
}

function BoxView({ box, x }: { readonly box: Box; readonly x: number }) {
  return (
    <a href={box.href} class={`box tone-${box.tone}`}>
      <rect x={x + 0.5} y={box.y + 0.5} width={BOX.width - 1} height={BOX.height} rx="6" />
      <circle cx={x + 13} cy={middle(box)} r="4.5" />
      <text x={x + 25} y={box.y + 15}>
        {`${cut(box.label, 24)} `}
      </text>
      <text class="box-detail" x={x + 25} y={box.y + 28}>
        {cut(box.detail, 30)}
      </text>
    </a>
  );
}

function middle({ y }: Box): number {
  return y + BOX.height / 2;
}

function curve(x1: number, y1: number, x2: number, y2: number): string {
  const bend = (x2 - x1) / 2;
  return `M${x1},${y1} C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}`;
}

function cut(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}

function placed(boxes: readonly Omit<Box, 'y'>[], rest: (count: number) => Omit<Box, 'y'>): Box[] {
  const shown =
    boxes.length > MAX_BOXES ? [...boxes.slice(0, MAX_BOXES - 1), rest(boxes.length - MAX_BOXES + 1)] : boxes;
  return shown.map((box, at) => ({ ...box, y: BOX.gap + at * (BOX.height + BOX.gap) }));
}

function clientBoxes(sessions: readonly Session[], seen: typeof callers.value): Box[] {
  const byName = Map.groupBy(sessions, ({ client }) => client ?? UNNAMED_CLIENT);
  const connected = [...byName]
    .sort(([, a], [, b]) => b.length - a.length)
    .map(([name, own]) => ({
      key: name,
      label: name,
      detail: `${counted(own.length, 'session')}, ${[...new Set(own.map(({ revision }) => revision))].sort().join(', ')}`,
      tone: 'good',
      href: href(['sessions']),
    }));
  const others = [...seen]
    .filter(([name]) => !byName.has(name))
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, { revision }]) => ({
      key: name,
      label: name,
      detail: `no session, ${revision}`,
      tone: 'good',
      href: href(['timeline'], { filter: name === UNNAMED_CLIENT ? '' : `client:"${name.replaceAll('"', '*')}"` }),
    }));
  const boxes = [...connected, ...others];
  return placed(boxes, (count) => ({
    key: ' more',
    label: `${count} more clients`,
    detail: 'all sessions',
    tone: 'rest',
    href: href(['sessions']),
  }));
}

function nodeBoxes(nodes: readonly Node[]): Box[] {
  const own = {
    key: '',
    label: 'this gateway',
    detail: trafficOf([edgeOf.node('')]) || counted(nodeStats.value.get('')?.sessions ?? 0, 'active session'),
    tone: 'good',
    href: href(['configuration']),
  };
  const boxes = nodes.map(({ node, state, version }) => ({
    key: node,
    label: node,
    detail: `${state}, ${trafficOf([edgeOf.node(node)]) || version}`,
    tone: NODE_TONES[state],
    href: href(['cluster']),
  }));
  return placed(nodes.length === 0 ? [own] : boxes, (count) => ({
    key: ' more',
    label: `${count} more nodes`,
    detail: '',
    tone: 'rest',
    href: href(['cluster']),
  }));
}

function serverBoxes(servers: readonly Server[]): Box[] {
  const order = { bad: 0, warn: 1, busy: 2, good: 3, rest: 4 } as const;
  const byServer = Map.groupBy(observed.value, ({ server }) => server);
  const boxes = servers
    .map((server) => {
      const { name, state, transport, revision, toolCount } = server;
      const detail = [
        state === 'running' || state === 'connected' ? counted(toolCount, 'tool') : state.replaceAll('_', ' '),
        transport,
        revision ?? '',
      ];
      return {
        key: name,
        label: name,
        detail: detail.filter((word) => word !== '').join(', '),
        tone: [server, ...(byServer.get(name) ?? [])].map(toneOf).sort((a, b) => order[a] - order[b])[0]!,
        href: href(['servers', name]),
      };
    })
    .sort((a, b) => order[a.tone] - order[b.tone]);
  return placed(boxes, (count) => ({
    key: ' more',
    label: `${count} more servers`,
    detail: 'all servers',
    tone: 'rest',
    href: href(['servers']),
  }));
}
