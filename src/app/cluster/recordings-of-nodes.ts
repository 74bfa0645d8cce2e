import type { Bus } from '../../bus/bus.ts';
import type { Cluster } from '../../cluster/cluster.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Recorder, RecordingPart } from '../../telemetry/recorder/recorder.ts';

const NAME = 'trunkline.recordings';
const ANSWER_MS = 5_000;

/** Makes all other nodes apply their part of a recording. Resolves once each has answered or timed out. */
export async function shareRecording(bus: Bus, cluster: Cluster, part: RecordingPart, logger: Logger): Promise<void> {
  const payload = Buffer.from(JSON.stringify(part));
  const shared = [...cluster.peers.others()].map(async ({ id, peer }) => {
    const outcome = await bus.call(NAME, payload, { to: peer, deadlineMs: ANSWER_MS }).outcome;
    const reason = outcome.kind === 'failure' ? outcome.error.message : outcome.payload.toString();
    if (reason !== '') logger.warn('recording_not_shared', { recording: part.head.id, node: id, reason });
  });
  await Promise.all(shared);
}

/** Applies this node's part of the recordings of other nodes, from now on. */
export function serveRecordings(bus: Bus, recorder: Recorder): void {
  bus.serve(NAME, async (serving) => {
    const part = JSON.parse(serving.payload.toString()) as RecordingPart;
    serving.answer(Buffer.from((await recorder.applyPart(part)) ?? ''));
  });
}
