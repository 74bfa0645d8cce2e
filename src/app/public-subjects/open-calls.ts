import type { Bus } from '../../bus/bus.ts';
import type { Wire } from '../../bus/wire.ts';
import type { Cluster } from '../../cluster/cluster.ts';
import { packFrame, unpackFrame } from '../../cluster/frames/frame.ts';
import { LruMap } from '../../cluster/lru-map.ts';
import { type Clock, pause } from '../../model/clock.ts';
import { type Answer, AnswerPublisher } from './answer-publisher.ts';
import { type ForwardedCall, OpenCall, type WhenOrphaned } from './open-call.ts';

const SUBJECT = 'trunkline.public.calls';
const TICK_MS = 50;
/** Interval at which a node repeats which calls it handles. */
const HELD_EVERY_MS = 500;
/** Silence about a call after which a node asks whether it is answered, and after which it takes the call over. */
const ASK_MS = 1_200;
const ORPHAN_MS = 1_500;
/** Delay for each rank: a witness acts only if those before it are lost too. */
const RANK_MS = 150;
/** A tick that is later than this shows a pause of this process, and nothing about the other nodes. */
const STALL_MS = 400;
/** How long a node waits, after a pause or an outage, for reports of its calls that other nodes answered. */
const SETTLE_MS = 500;
/** A report of an answer is forgotten if its request does not arrive within this time. */
const REQUEST_LATE_MS = 10_000;
const MAX_ANSWERED = 4_096;
const MAX_PER_MESSAGE = 100;

/** Reports about public calls between nodes, by reply subject. */
interface CallReports {
  /** The sender handles these calls. */
  readonly held?: readonly string[];
  readonly answered?: readonly string[];
  /** The sender has taken these calls over from a lost node. */
  readonly adopted?: readonly string[];
  /** The sender asks whether these calls are answered. */
  readonly asked?: readonly string[];
  /** These calls are answered; sent to peers that handle them or ask. */
  readonly over?: readonly string[];
}

interface OpenCallsDeps {
  readonly bus: Pick<Bus, 'peer' | 'publish' | 'subscribe'>;
  readonly wire: Wire;
  readonly clock: Clock;
  readonly cluster: {
    readonly peers: Pick<Cluster['peers'], 'others'>;
    readonly loop: Pick<Cluster['loop'], 'wasStalled'>;
  };
}

/**
 * Tracks which public calls are open, and which node handles each, so that every caller gets an answer if a node dies. NATS
 * delivers each request to one node of the queue group, which runs it, and to all nodes as witnesses. Nodes repeat which calls
 * they handle; the first witness answers a call that no node has reported for 1.5 s (decision 048). Nothing is stored, and
 * calls wait for other nodes only after a pause or an outage.
 */
export class OpenCalls {
  readonly #deps: OpenCallsDeps;
  readonly #publisher: AnswerPublisher;
  readonly #open = new Map<string, OpenCall>();
  readonly #forwarded = new Map<string, ForwardedCall>();
  /** Reply subjects of answered calls. */
  #answeredReplies = new LruMap<true>(MAX_ANSWERED);
  /** Reports for the next tick. */
  #pendingReports: Partial<Record<keyof CallReports, string[]>> = {};
  /** Answers held back until it is known whether another node has answered. */
  #late: Answer[] = [];
  #connectedAt = Number.NEGATIVE_INFINITY;
  #heldAt = Number.NEGATIVE_INFINITY;
  /** When the last ping that NATS answered was sent: everything from before has arrived. */
  #flushedAt = Number.NEGATIVE_INFINITY;
  #tickedAt = 0;
  #ticking = false;
  #hadPeers = false;

  constructor(deps: OpenCallsDeps) {
    const { bus, wire, clock } = deps;
    this.#deps = deps;
    this.#publisher = new AnswerPublisher(wire, clock, bus.peer, (reply) => this.#taken(reply));
    bus.subscribe(SUBJECT, (payload, from) => {
      if (from !== bus.peer) this.#onReports(unpackFrame<CallReports>(payload).header, from);
    });
    wire.onChange((change) => {
      if (change.type === 'connected') this.#connected();
      else if (change.type === 'disconnected') this.#disconnected();
    });
  }

  /** The rank of this node among the witnesses; null if a node of an earlier version does not report its calls. */
  get #rank(): number | null {
    let rank = 0;
    for (const { peer, publicCalls } of this.#deps.cluster.peers.others()) {
      if (publicCalls === undefined) return null;
      if (publicCalls && peer < this.#deps.bus.peer) rank++;
    }
    return rank;
  }

  /** Whether other nodes may have answered calls of this node and it does not know that yet. */
  get #unsettled(): boolean {
    const { wire, clock, cluster } = this.#deps;
    // Reports from the time of a pause arrive within this time.
    return !wire.connected || clock.now() - this.#connectedAt < SETTLE_MS || cluster.loop.wasStalled(SETTLE_MS);
  }

  /** A request arrived, at this node or another. */
  seen(reply: string, orphaned: WhenOrphaned): void {
    const call = this.#of(reply);
    call.orphaned = orphaned;
    call.requests++;
    if (call.requests > 0) this.#answeredReplies.delete(reply);
    this.#forgetEnded(reply, call);
  }

  /** Number of calls that this node handles. */
  get heldCount(): number {
    let count = 0;
    for (const { held } of this.#open.values()) count += held;
    return count;
  }

  /** This node handles the call. Returns null if it may begin; else resolves with false if another node has answered it. */
  take(reply: string): Promise<boolean> | null {
    const call = this.#of(reply);
    call.held++;
    // Everything that was sent to this process during a pause arrives at once after it.
    return this.#unsettled ? this.#confirmed(reply, call) : null;
  }

  async #confirmed(reply: string, call: OpenCall): Promise<boolean> {
    this.#report('held', reply);
    await pause(this.#deps.clock, SETTLE_MS);
    if (call.lost) this.#drop(reply, call);
    return !call.lost;
  }

  /** Answers a call that this node handles. */
  answer(reply: string, answer: Buffer): void {
    const call = this.#open.get(reply);
    if (this.#unsettled) this.#late.push({ reply, answer });
    else if (call?.lost === true) this.#drop(reply, call);
    else this.#deliver(reply, answer);
  }

  /** A call that node `by` received runs here. The returned function takes the answer; null if it did not begin here. */
  trackForwarded(reply: string, by: string): (answer: Buffer | null) => void {
    const forwarded: ForwardedCall = { by, endedAt: 0, answer: null, adopted: false };
    this.#forwarded.set(reply, forwarded);
    this.#arm();
    return (answer) => {
      forwarded.endedAt = this.#deps.clock.now();
      forwarded.answer = answer;
      if (forwarded.adopted) this.#end(reply, answer);
      else if (answer === null && this.#forwarded.get(reply) === forwarded) this.#forwarded.delete(reply);
    };
  }

  /** The node that received the call is lost: this node handles it from now on. */
  #adopt(reply: string, forwarded: ForwardedCall): void {
    this.#forwarded.delete(reply);
    forwarded.adopted = true;
    const call = this.#of(reply);
    call.adopted = true;
    call.held++;
    this.#report('adopted', reply);
    if (forwarded.endedAt > 0) this.#end(reply, forwarded.answer);
  }

  #end(reply: string, answer: Buffer | null): void {
    if (answer === null) this.#drop(reply, this.#of(reply));
    else this.answer(reply, answer);
  }

  #of(reply: string): OpenCall {
    let call = this.#open.get(reply);
    if (call === undefined) {
      call = new OpenCall(this.#deps.clock.now());
      this.#open.set(reply, call);
      this.#arm();
    }
    return call;
  }

  /** The call stays held until NATS has confirmed the answer. */
  #deliver(reply: string, answer: Buffer): void {
    const call = this.#of(reply);
    call.sent++;
    call.sentAt = this.#deps.clock.now();
    this.#publisher.publish(reply, answer);
  }

  #delivered({ reply }: Answer): void {
    const call = this.#of(reply);
    call.sent--;
    if (call.lost) {
      this.#drop(reply, call);
      return;
    }
    call.held--;
    this.#answered(reply, call);
    this.#report('answered', reply);
  }

  /** Whether another node answers a call whose answer from here has had no receiver. If so, drops it here. */
  #taken(reply: string): boolean {
    const call = this.#open.get(reply);
    if (call?.lost !== true) return false;
    call.sent--;
    this.#drop(reply, call);
    return true;
  }

  /** This node does not answer the call any more. */
  #drop(reply: string, call: OpenCall): void {
    call.held--;
    this.#forgetEnded(reply, call);
  }

  #answered(reply: string, call: OpenCall): void {
    call.requests--;
    if (call.requests <= 0) this.#answeredReplies.set(reply, true);
    this.#forwarded.delete(reply);
    this.#forgetEnded(reply, call);
  }

  #forgetEnded(reply: string, call: OpenCall): void {
    if (call.held === 0 && (call.requests === 0 || call.lost)) this.#open.delete(reply);
  }

  #onReports(reports: CallReports, from: string): void {
    this.#hadPeers = true;
    const now = this.#deps.clock.now();
    for (const reply of reports.answered ?? []) {
      const call = this.#of(reply);
      this.#answered(reply, call);
      if (call.requests < call.held) call.lost = true;
    }
    for (const reply of reports.over ?? []) this.#endedElsewhere(reply);
    for (const reply of reports.adopted ?? []) {
      const call = this.#open.get(reply);
      // If two nodes adopt a call at the same time, the one with the lower peer id answers it.
      if (call !== undefined && call.held > 0) call.lost = !call.adopted || from < this.#deps.bus.peer;
    }
    for (const reply of [...(reports.held ?? []), ...(reports.adopted ?? [])]) {
      const call = this.#open.get(reply);
      if (this.#isAnswered(reply)) this.#report('over', reply);
      else if (call !== undefined) Object.assign(call, { lastReportedAt: now, known: true, asked: false });
    }
    for (const reply of reports.held ?? []) if (this.#open.get(reply)?.adopted === true) this.#report('adopted', reply);
    for (const reply of reports.asked ?? []) if (this.#isAnswered(reply)) this.#report('over', reply);
    if (this.#pendingReports.over !== undefined || this.#pendingReports.adopted !== undefined) this.#flush();
  }

  #isAnswered(reply: string): boolean {
    const call = this.#open.get(reply);
    if (this.#answeredReplies.peek(reply) !== true) return false;
    return call === undefined || (call.held === 0 && call.requests <= 0);
  }

  #endedElsewhere(reply: string): void {
    this.#answeredReplies.set(reply, true);
    this.#forwarded.delete(reply);
    const call = this.#open.get(reply);
    if (call === undefined) return;
    call.lost = true;
    this.#forgetEnded(reply, call);
  }

  /** Unconfirmed answers may be lost. They are sent again, unless another node has answered meanwhile. */
  #disconnected(): void {
    const lost = this.#publisher.takeBack();
    for (const { reply } of lost) this.#of(reply).sent--;
    this.#late.push(...lost);
  }

  /** This node missed reports of its peers: it waits for new ones, because a peer without a connection is not late. */
  #connected(): void {
    const now = this.#deps.clock.now();
    this.#connectedAt = now;
    this.#heldAt = Number.NEGATIVE_INFINITY;
    this.#answeredReplies = new LruMap(MAX_ANSWERED);
    for (const [reply, call] of this.#open) {
      Object.assign(call, { lastReportedAt: now, asked: false });
      if (call.held === 0) this.#report('asked', reply);
    }
    for (const reply of this.#forwarded.keys()) this.#report('asked', reply);
  }

  #arm(): void {
    if (this.#ticking) return;
    this.#ticking = true;
    const { clock } = this.#deps;
    this.#tickedAt = clock.now();
    clock.after(TICK_MS, () => this.#tick());
  }

  #tick(): void {
    const { clock, wire } = this.#deps;
    const now = clock.now();
    const late = now - this.#tickedAt - TICK_MS;
    this.#ticking = false;
    // Time in which this process was paused, or had no connection, does not count as silence.
    const excludedMs = wire.connected ? (late > STALL_MS ? late : 0) : now - this.#tickedAt;
    for (const call of this.#open.values()) call.lastReportedAt = Math.min(now, call.lastReportedAt + excludedMs);
    if (wire.connected) {
      if (!this.#unsettled) {
        const answers = this.#late;
        this.#late = [];
        for (const { reply, answer } of answers) this.answer(reply, answer);
      }
      this.#checkCalls(now);
      this.#flush();
      void this.#publisher.confirmed().then((answers) => {
        for (const answer of answers) this.#delivered(answer);
        if (answers.length > 0) this.#flush();
      });
    }
    if (this.#open.size + this.#forwarded.size > 0 || Object.keys(this.#pendingReports).length > 0) this.#arm();
  }

  #checkCalls(now: number): void {
    const rank = this.#rank;
    const reportsHeld = now - this.#heldAt >= HELD_EVERY_MS - TICK_MS / 2;
    if (reportsHeld) this.#heldAt = now;
    let asks = false;
    const others = new Set<string>();
    for (const { peer } of this.#deps.cluster.peers.others()) others.add(peer);
    for (const [reply, forwarded] of [...this.#forwarded]) {
      if (!others.has(forwarded.by)) this.#adopt(reply, forwarded);
      else if (reportsHeld) this.#report('held', reply);
    }
    for (const [reply, call] of [...this.#open]) {
      if (call.held > 0) {
        call.lastReportedAt = now;
        // An answer that was just sent is confirmed soon, unless it waits for its receiver.
        if (reportsHeld && (call.held > call.sent || now - call.sentAt > TICK_MS)) this.#report('held', reply);
        continue;
      }
      const silentMs = now - call.lastReportedAt;
      const confirmedSilentMs = this.#flushedAt - call.lastReportedAt;
      if (call.requests <= 0) {
        if (silentMs >= REQUEST_LATE_MS) this.#open.delete(reply);
      } else if (silentMs >= ORPHAN_MS + RANK_MS * (rank ?? 0) && confirmedSilentMs >= ASK_MS) {
        this.#orphan(reply, call, rank !== null);
      } else if (silentMs >= ASK_MS) {
        asks ||= confirmedSilentMs < ASK_MS;
        if (!call.asked) this.#report('asked', reply);
        call.asked = true;
      }
    }
    if (asks) this.#ping(now);
  }

  /** The connection may be dead before this node notices: it then gets no reports, and must not take calls over. */
  #ping(now: number): void {
    const answered = (): void => {
      this.#flushedAt = Math.max(this.#flushedAt, now);
    };
    void this.#deps.wire.flush().then(answered, () => {});
  }

  /** `allReport`: every node reports the calls that it handles. */
  #orphan(reply: string, call: OpenCall, allReport: boolean): void {
    if (this.#forwarded.has(reply)) return;
    if (!call.known && !allReport) {
      this.#open.delete(reply);
      this.#answeredReplies.set(reply, true);
      return;
    }
    call.adopted = true;
    this.#report('adopted', reply);
    const { orphaned, requests } = call;
    for (let i = 0; i < requests; i++) {
      if (typeof orphaned === 'function') orphaned();
      else {
        call.held++;
        this.#deliver(reply, orphaned);
      }
    }
  }

  #report(kind: keyof CallReports, reply: string): void {
    (this.#pendingReports[kind] ??= []).push(reply);
  }

  #flush(): void {
    const kinds = Object.entries(this.#pendingReports);
    this.#pendingReports = {};
    // A node that was cut off has to ask before heartbeats show its peers.
    this.#hadPeers ||= this.#deps.cluster.peers.others()[Symbol.iterator]().next().done !== true;
    if (!this.#hadPeers) return;
    const most = Math.max(0, ...kinds.map(([, replies]) => replies.length));
    for (let at = 0; at < most; at += MAX_PER_MESSAGE) {
      const part: CallReports = Object.fromEntries(
        kinds.map(([kind, replies]) => [kind, replies.slice(at, at + MAX_PER_MESSAGE)]),
      );
      this.#deps.bus.publish(SUBJECT, packFrame(part));
    }
  }
}
