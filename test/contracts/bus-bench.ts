import assert from 'node:assert/strict';
import type { Bus, BusOutcome, BusServing } from '../../src/bus/bus.ts';
import type { ErrorCode } from '../../src/model/error-catalogue.ts';
import { GatewayError, type GatewayErrorOptions } from '../../src/model/gateway-error.ts';
import type { FakeClock } from '../support/fake-clock.ts';

export interface BusHarness {
  /** Shown in the titles. */
  readonly name: string;
  start(): Promise<BusBench>;
}

/** A messaging system with peers on it; all have the clock of the test, which only the test advances. */
export interface BusBench {
  readonly clock: FakeClock;
  /** Connected when it resolves. All peers know the same secret unless they are given others. */
  join(secrets?: readonly string[]): Promise<Bus>;
  /** Cuts a peer's connection; `restore` restores it. Both resolve when the peer has noticed. */
  cut(bus: Bus): Promise<void>;
  restore(bus: Bus): Promise<void>;
  /** Publishes bytes without a bus, as any program with access to the messaging system could. */
  intrude(subject: string, payload: Buffer): void;
  /** Everything that is published under a subject from now on, as a subscriber could record it. */
  overhear(subject: string): Promise<readonly { readonly subject: string; readonly payload: Buffer }[]>;
  /** Resolves when everything published so far has been delivered. */
  settle(): Promise<void>;
  dispose(): Promise<void>;
}

export const SECRET = 'a secret of the cluster, thirty-two bytes at least';
export const OTHER_SECRET = 'another secret, of thirty-two bytes or more as well';
export const MIB = 1024 * 1024;
export const DEADLINE_MS = 60_000;

export type Scenario = (title: string, run: (bench: BusBench, a: Bus, b: Bus) => Promise<void>) => void;

export function serveEcho(bus: Bus): string {
  const subject = 'trunkline.echo';
  bus.serve(subject, (serving) => serving.answer(serving.payload));
  return subject;
}

export const reasons = new WeakMap<BusServing, string[]>();

/** A call from one peer to the other that is being served and not answered; the caller knows that. */
export async function hanging(bench: BusBench, from: Bus, to: Bus, deadlineMs = DEADLINE_MS) {
  const subject = 'trunkline.hanging';
  let serving: BusServing | null = null;
  to.serve(subject, (taken) => {
    serving = taken;
    const received: string[] = [];
    reasons.set(taken, received);
    taken.onCancel = (reason) => received.push(reason);
  });
  await bench.settle();
  const emitted: Buffer[] = [];
  const call = from.call(subject, Buffer.from('x'), {
    to: to.peer,
    deadlineMs,
    onEmit: (payload) => emitted.push(Buffer.from(payload)),
  });
  await eventually(bench, () => serving !== null);
  await bench.clock.advance(20);
  await eventually(bench, () => call.accepted);
  return { serving: serving as unknown as BusServing, call, emitted };
}

export async function eventually(bench: BusBench, condition: () => boolean): Promise<void> {
  for (let turn = 0; !condition(); turn++) {
    assert.ok(turn < 20_000, `it never became true: ${condition.toString()}`);
    await bench.settle();
  }
}

export function result(outcome: BusOutcome): Buffer {
  if (outcome.kind === 'failure') throw outcome.error;
  return outcome.payload;
}

export function failure(outcome: BusOutcome): GatewayError {
  assert.equal(outcome.kind, 'failure');
  return (outcome as Extract<BusOutcome, { kind: 'failure' }>).error;
}

export function failed(code: ErrorCode, options: GatewayErrorOptions = {}): GatewayError {
  return new GatewayError(code, `for the test: ${code}`, options);
}

/** Bytes in which no sequence repeats. */
export function patterned(length: number): Buffer {
  const bytes = Buffer.allocUnsafe(length);
  let state = length + 1;
  for (let at = 0; at < length; at++) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    bytes[at] = state >>> 16;
  }
  return bytes;
}
