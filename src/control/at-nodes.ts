import { GatewayError } from '../model/gateway-error.ts';
import { joinCursors } from '../telemetry/journal.ts';
import type { ClusterPlane, ControlPlane, ForwardedRequest, NodeRequest } from './control-plane.ts';
import {
  type ApiOperation,
  type ControlAnswer,
  type ControlRequest,
  type EventWriter,
  problem,
  refuseParameters,
  type StepsAnswer,
  type StreamAnswer,
} from './operation.ts';

type Answer = ControlAnswer | StreamAnswer | StepsAnswer;

/** Interval at which a stream of all nodes looks for new nodes. */
const LOOK_MS = 2_000;

/** Runs the operation at this node, at the one that `?node=` names, at one that has the server, or at all nodes. */
export async function runAtNodes(
  operation: ApiOperation,
  request: ControlRequest,
  plane: ControlPlane,
): Promise<Answer> {
  const refused = refuseParameters(operation, request.query);
  if (refused !== null) return refused;
  const node = request.query.get('node');
  if (node !== null) return runAtNode(node, operation, request, plane);
  const { cluster } = plane;
  const holder = operation.runsAt === 'holder' ? (cluster?.holder(request.name) ?? null) : null;
  const there = holder === null ? null : await requestNode(cluster!, holder, operation, request);
  if (there?.status === 200) return there;
  const own = await operation.run(request, plane);
  if (cluster === null || 'steps' in own) return own;
  if ('stream' in own) {
    if (operation.runsAt !== 'all-nodes') return own;
    return { stream: (writer, ended) => new StreamOfNodes(writer, own, cluster, forwarded(operation, request), ended) };
  }
  if (operation.merge === undefined) return own.status === 404 && there !== null ? there : own;
  // The other nodes would refuse the request too.
  if (own.status === 400) return own;
  const others = cluster.others();
  const answers = await Promise.all(others.map((one) => requestNode(cluster, one, operation, request)));
  const good = [own, ...answers].filter(({ status }) => status === 200);
  const failed = others.filter((_, at) => answers[at]!.status >= 500);
  const changes = operation.method !== 'GET';
  if (failed.length > 0 && (changes || (good.length === 0 && own.status === 404))) {
    const done = changes && good.length > 0 ? '; the other nodes have done it' : '';
    return problem(503, 'node_silent', `no answer from ${failed.join(', ')}${done}`);
  }
  const lostAt = plane.clock.wall();
  const absent = [...failed.map((node) => ({ node, lostAt })), ...cluster.silent()];
  const merged = operation.merge(
    good.map(({ body }) => JSON.parse(body.toString())),
    request,
    [...new Map(absent.map((one) => [one.node, one])).values()],
  );
  return merged === null ? own : { status: 200, body: JSON.stringify(merged) };
}

async function runAtNode(node: string, operation: ApiOperation, request: ControlRequest, plane: ControlPlane) {
  const { cluster, calls } = plane;
  if (operation.runsAt === 'this-node') {
    return problem(400, 'node_not_allowed', 'this is done at the node that is asked: leave node out, or ask that node');
  }
  if (node === calls.node) return operation.run(request, plane);
  if (cluster?.others().includes(node) !== true) {
    return problem(404, 'node_unknown', `there is no other node named ${JSON.stringify(node.slice(0, 64))}`);
  }
  return (operation.streams === true ? streamOf : requestNode)(cluster, node, operation, request);
}

/** Passes the client's `Last-Event-ID` to the other node as `after`. */
function forwarded({ id }: ApiOperation, { name, query, body, lastEventId }: ControlRequest): ForwardedRequest {
  const asked = lastEventId === null ? query.toString() : withCursor(query, lastEventId);
  return { operation: id, name, query: asked, body: body.toString() };
}

function withCursor(query: URLSearchParams | string, cursor: string): string {
  const asked = new URLSearchParams(query);
  asked.set('after', cursor);
  return asked.toString();
}

async function requestNode(
  cluster: ClusterPlane,
  node: string,
  operation: ApiOperation,
  request: ControlRequest,
): Promise<ControlAnswer> {
  const asked = cluster.ask(node, forwarded(operation, request));
  const gone = (): void => asked.cancel();
  if (request.gone.aborted) gone();
  request.gone.addEventListener('abort', gone, { once: true });
  try {
    return await asked.answer;
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    return problem(503, 'node_silent', `node ${node}: ${error.message}`);
  } finally {
    request.gone.removeEventListener('abort', gone);
  }
}

function streamOf(cluster: ClusterPlane, node: string, operation: ApiOperation, request: ControlRequest): StreamAnswer {
  return {
    stream(writer, ended) {
      const asked = relayed(cluster, node, forwarded(operation, request), (id, json) => writer.event(id, [json]));
      asked.answer.then(
        ({ body }) => {
          // The last step of a call, or the error.
          if (body.length > 0) writer.event(null, [Buffer.from(body)]);
          writer.end();
        },
        () => writer.end(),
      );
      writer.onDrain = () => asked.resume();
      writer.onClose = () => {
        asked.cancel();
        ended();
      };
      return {
        close() {
          asked.cancel();
          writer.end();
        },
      };
    },
  };
}

/** Passes the other node's events to `write`; pauses that node when `write` returns false. */
function relayed(
  cluster: ClusterPlane,
  node: string,
  request: ForwardedRequest,
  write: (id: string | null, json: Buffer) => boolean,
): NodeRequest {
  const asked: NodeRequest = cluster.ask(node, request, (id, json) => {
    if (!write(id, json)) asked.pause();
  });
  return asked;
}

/**
 * One stream of the events of all nodes, including nodes that join later. An event id contains the position of every node, so
 * that a client, or a node that was lost, can resume there.
 */
class StreamOfNodes {
  readonly #writer: EventWriter;
  readonly #cluster: ClusterPlane;
  readonly #request: ForwardedRequest;
  readonly #own: { close(): void };
  readonly #asked = new Map<string, NodeRequest>();
  readonly #timer: NodeJS.Timeout;
  /** Last position of each node. */
  #cursor: string;

  constructor(
    writer: EventWriter,
    own: StreamAnswer,
    cluster: ClusterPlane,
    request: ForwardedRequest,
    ended: () => void,
  ) {
    this.#writer = writer;
    this.#cluster = cluster;
    this.#request = request;
    this.#cursor = joinCursors([new URLSearchParams(request.query).get('after') ?? '']);
    this.#own = own.stream(this.#ownWriter(), () => {
      this.#stop();
      ended();
    });
    const drained = writer.onDrain;
    writer.onDrain = () => {
      drained?.();
      for (const asked of this.#asked.values()) asked.resume();
    };
    this.#look();
    this.#timer = setInterval(() => this.#look(), LOOK_MS);
    this.#timer.unref();
  }

  close(): void {
    this.#stop();
    this.#own.close();
  }

  #stop(): void {
    clearInterval(this.#timer);
    for (const asked of this.#asked.values()) asked.cancel();
  }

  #event(id: string | null, parts: readonly Buffer[]): boolean {
    if (id !== null) this.#cursor = joinCursors([this.#cursor, id]);
    return this.#writer.event(id === null ? null : this.#cursor, parts);
  }

  #ownWriter(): EventWriter {
    const writer = this.#writer;
    return {
      event: (id, parts) => this.#event(id, parts),
      end: () => writer.end(),
      get closed() {
        return writer.closed;
      },
      get onDrain() {
        return writer.onDrain;
      },
      set onDrain(drained) {
        writer.onDrain = drained;
      },
      get onClose() {
        return writer.onClose;
      },
      set onClose(closed) {
        writer.onClose = closed;
      },
    };
  }

  #look(): void {
    const request = { ...this.#request };
    if (this.#cursor !== '') request.query = withCursor(request.query, this.#cursor);
    for (const node of this.#cluster.others()) {
      if (this.#asked.has(node)) continue;
      const asked = relayed(this.#cluster, node, request, (id, json) => this.#event(id, [json]));
      this.#asked.set(node, asked);
      const over = (): void => void this.#asked.delete(node);
      asked.answer.then(over, over);
    }
  }
}
