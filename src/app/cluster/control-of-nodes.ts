import type { Bus, BusServing } from '../../bus/bus.ts';
import type { Cluster } from '../../cluster/cluster.ts';
import { SinkElsewhere } from '../../cluster/streams/clients-elsewhere.ts';
import type { ControlPlane, ForwardedRequest, NodeRequest, SendStep } from '../../control/control-plane.ts';
import { redactedBody } from '../../control/operation.ts';
import { OPERATIONS } from '../../control/operations.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Logger } from '../../telemetry/logger.ts';

const NAME = 'trunkline.control';
/** Deadline of an answer. */
const ANSWER_MS = 2 * 60_000;
/** Operations that last as long as the server or the recording does. */
const LASTING: ReadonlySet<string> = new Set(['callTool', 'replayRecording', 'restartServer']);
/** Deadline of those, and of a stream, whose reader then opens it again. */
const LASTING_MS = 24 * 60 * 60_000;

/** Sends a request to the control API of another node over the bus, which only nodes with the cluster secret can use. */
export function askNode(
  bus: Bus,
  cluster: Cluster,
  node: string,
  request: ForwardedRequest,
  onEvent?: (id: string | null, json: Buffer) => void,
): NodeRequest {
  const peer = cluster.peers.named(node)?.peer;
  if (peer === undefined) {
    const gone = Promise.reject(new GatewayError('NOT_SENT', `there is no node named ${node}`));
    return { answer: gone, cancel() {}, pause() {}, resume() {} };
  }
  return askPeer(bus, peer, request, onEvent);
}

export function askPeer(
  bus: Bus,
  peer: string,
  request: ForwardedRequest,
  onEvent?: (id: string | null, json: Buffer) => void,
): NodeRequest {
  const call = bus.call(NAME, Buffer.from(JSON.stringify(request)), {
    to: peer,
    deadlineMs: onEvent === undefined && !LASTING.has(request.operation) ? ANSWER_MS : LASTING_MS,
    ...(onEvent === undefined ? {} : { onEmit: (payload) => deliverEvent(payload, onEvent) }),
  });
  return {
    answer: call.outcome.then((outcome) => {
      if (outcome.kind === 'failure') throw outcome.error;
      const end = outcome.payload.indexOf('\n');
      return { status: Number(outcome.payload.subarray(0, end)), body: outcome.payload.subarray(end + 1) };
    }),
    cancel: () => call.cancel('the operator does not wait any more'),
    pause: () => call.pause(),
    resume: () => call.resume(),
  };
}

function deliverEvent(payload: Buffer, onEvent: (id: string | null, json: Buffer) => void): void {
  const end = payload.indexOf('\n');
  onEvent(end === 0 ? null : payload.toString('latin1', 0, end), payload.subarray(end + 1));
}

/** Answers other nodes until the returned registration is closed. Logs requests that may have changed something. */
export function serveNodes(bus: Bus, plane: ControlPlane, logger: Logger): { close(): void } {
  return bus.serve(NAME, (serving) => serve(serving, plane, logger));
}

async function serve(serving: BusServing, plane: ControlPlane, logger: Logger): Promise<void> {
  const { operation: id, name, query, body } = JSON.parse(serving.payload.toString()) as ForwardedRequest;
  const operation = OPERATIONS.find((one) => one.id === id);
  const refuse = (status: number, code: string, message: string): void =>
    serving.answer(packed(status, JSON.stringify({ error: { code, message } })));
  if (operation === undefined) return refuse(404, 'operation_unknown', 'this node is of an older version');
  if (operation.runsAt === 'this-node')
    return refuse(400, 'node_not_allowed', 'this operation runs only at the node that is asked');
  const gone = new AbortController();
  serving.onCancel = () => gone.abort();
  const request = {
    name,
    query: new URLSearchParams(query),
    body: Buffer.from(body),
    caller: { exec: false },
    lastEventId: null,
    session: null,
    secure: false,
    gone: gone.signal,
  };
  const answer = await operation.run(request, plane);
  if (operation.method !== 'GET') {
    const status = 'status' in answer ? answer.status : 200;
    logger.info('control', { operation: id, name, status, forwarded: true });
  }
  if ('stream' in answer) {
    const sink = new SinkElsewhere(serving, (id, parts) => [Buffer.from(`${id ?? ''}\n`), ...parts]);
    const stream = answer.stream(sink, () => {});
    await sink.over;
    // The caller may have left before the stream began.
    stream.close();
    serving.answer(packed(200, ''));
  } else if ('steps' in answer) {
    let full = false;
    serving.onDrain = () => {
      full = false;
    };
    const sendStep: SendStep = (json, needed = false) => {
      if (needed || !full) full = !serving.emit(Buffer.from(`\n${json}`));
    };
    serving.answer(packed(200, await answer.steps(sendStep)));
  } else {
    serving.answer(packed(answer.status, redactedBody(operation, answer, logger)));
  }
}

function packed(status: number, body: string | Buffer): Buffer[] {
  return [Buffer.from(`${status}\n`), Buffer.from(body)];
}
