import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { duration } from '../../../../src/model/call-words.ts';
import { counted } from '../../../../src/model/counted.ts';
import { listNodes, listSessions, type Node, type Server, type Session } from '../../api/operations.ts';
import { onLive } from '../../live.ts';
import { toneOf } from '../../parts/status.tsx';
import { href } from '../../router.ts';
import { serverList } from '../../servers.ts';
import { edges, nodeStats } from './rates.ts';

const WIDTH = 960;
const BOX = { width: 200, height: 34, gap: 10 };
const X = { clients: 0, nodes: (WIDTH - BOX.width) / 2, servers: WIDTH - BOX.width };
/** More of them are one box that counts. */
const MAX_BOXES = 24;
/** Sessions come and go without an event: what the nodes count says when to look again. */
const READ_AFTER_MS = 300;

interface Box {
  readonly key: string;
  readonly label: string;
  readonly detail: string;
  readonly tone: string;
  readonly y: number;
  readonly href: string;
}

/** Clients, nodes and servers, with what goes between them at the moment. */
export function Topology() {
  const sessions = useSignal<readonly Session[]>([]);
  const nodes = useSignal<readonly Node[]>([]);
  const open = [...nodeStats.value.values()].reduce((sum, stats) => sum + stats.sessions, 0);
  const nodeNames = [...nodeStats.value.keys()].sort().join(' ');
  useEffect(() => {
    const timer = setTimeout(() => {
      void listSessions().then(
        (answer) => (sessions.value = answer.sessions),
        () => {},
      );
      void listNodes().then(
        (answer) => (nodes.value = answer.nodes),
        () => {},
      );
    }, READ_AFTER_MS);
    return () => clearTimeout(timer);
  }, [open, nodeNames]);
  useEffect(
    () =>
      onLive(
        'hello',
        () =>
          void listSessions().then(
            (answer) => (sessions.value = answer.sessions),
            () => {},
          ),
      ),
    [],
  );

  const clients = clientBoxes(sessions.value);
  const centre = nodeBoxes(nodes.value);
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
              <path
                key={`${client.key}>${node.key}`}
                class="edge"
                d={curve(X.clients + BOX.width, middle(client), X.nodes, middle(node))}
              />
            )),
          )}
          {centre.flatMap((node) =>
            servers.map((server) => <Flow key={`${node.key}>${server.key}`} node={node} server={server} />),
          )}
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

function Flow({ node, server }: { readonly node: Box; readonly server: Box }) {
  const edge = edges.value.get(`${node.key} ${server.key}`);
  const [x1, y1, x2, y2] = [X.nodes + BOX.width, middle(node), X.servers, middle(server)] as const;
  const busy = edge !== undefined && (edge.perSecond > 0 || edge.inFlight > 0);
  const state = edge !== undefined && edge.errors > 0 ? 'failing' : busy ? 'busy' : '';
  return (
    <>
      <path class={`edge ${state}`} d={curve(x1, y1, x2, y2)} />
      {busy ? (
        <text class="flow" x={x2 - 8} y={y2 - 5} text-anchor="end">
          {`${edge.perSecond < 10 ? edge.perSecond.toFixed(1) : Math.round(edge.perSecond)}/s${edge.p95 === null ? '' : ` ${duration(edge.p95)}`}${edge.errors > 0 ? ` ${edge.errors} failed` : ''}`}
        </text>
      ) : null}
    </>
  );
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

function clientBoxes(sessions: readonly Session[]): Box[] {
  const byName = Map.groupBy(sessions, ({ clientInfo }) => {
    const { name } = (clientInfo ?? {}) as { name?: unknown };
    return typeof name === 'string' ? name : 'unnamed client';
  });
  const boxes = [...byName]
    .sort(([, a], [, b]) => b.length - a.length)
    .map(([name, own]) => ({
      key: name,
      label: name,
      detail: `${counted(own.length, 'session')}, ${[...new Set(own.map(({ revision }) => revision))].sort().join(', ')}`,
      tone: 'good',
      href: href(['sessions'], { client: name }),
    }));
  return placed(boxes, (count) => ({
    key: ' more',
    label: `${count} more clients`,
    detail: 'all sessions',
    tone: 'rest',
    href: href(['sessions']),
  }));
}

function nodeBoxes(nodes: readonly Node[]): Box[] {
  const tones = { joining: 'busy', ready: 'good', fenced: 'bad', draining: 'warn' } as const;
  const own = {
    key: '',
    label: 'this gateway',
    detail: counted(nodeStats.value.get('')?.sessions ?? 0, 'session'),
    tone: 'good',
    href: href(['configuration']),
  };
  const boxes = nodes.map(({ node, state, version }) => ({
    key: node,
    label: node,
    detail: `${state}, ${version}`,
    tone: tones[state],
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
  const boxes = servers
    .map((server) => {
      const { name, state, transport, revision, toolCount } = server;
      const detail = [
        state === 'running' || state === 'connected' ? `${toolCount} tools` : state.replaceAll('_', ' '),
        transport,
        revision ?? '',
      ];
      return {
        key: name,
        label: name,
        detail: detail.filter((word) => word !== '').join(', '),
        tone: toneOf(server),
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
