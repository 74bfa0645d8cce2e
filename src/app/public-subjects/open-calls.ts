import type { Bus } from '../../bus/bus.ts';
import type { Wire } from '../../bus/wire.ts';
import type { Cluster } from '../../cluster/cluster.ts';
import { packFrame, unpackFrame } from '../../cluster/frames/frame.ts';
import { LruMap } from '../../cluster/lru-map.ts';
import { type Clock, pause } from '../../model/clock.ts';
import { type Answer, AnswerPost } from './answer-post.ts';
import { OpenCall, type PassedCall, type WhenOrphaned } from './open-call.ts';

const SUBJECT = 'trunkline.public.calls';
const TICK_MS = 50;
/** A node repeats this often which calls it has in hand. */
const HELD_EVERY_MS = 500;
/** A call that no node has had in hand for so long is answered by another one; shortly before, its end is asked about. */
const ASK_MS = 1_200;
const ORPHAN_MS = 1_500;
/** The witnesses answer in this order, the first unless it is gone too. */
const RANK_MS = 150;
/** A tick that comes later than this says that this process stood still, and nothing of the others. */
const STALL_MS = 400;
/** After it stood still or lost its connection a node waits so long to hear which of its calls were answered by others. */
const SETTLE_MS = 500;
/** An answer whose request has not come by then never brings it. */
const REQUEST_LATE_MS = 10_000;
const MAX_OVER = 4_096;
const MAX_PER_MESSAGE = 100;

/** What nodes tell each other of public calls, each by its reply subject. */
interface CallNews {
  /** The sender has them in hand. */
  readonly held?: readonly string[];
  readonly answered?: readonly string[];
  /** The sender has them in hand now, because the node that had them is gone. */
  readonly adopted?: readonly string[];
  /** The sender wants to know whether they are over. */
  readonly asked?: readonly string[];
  /** They are; the node tells peers that have them in hand, or ask. */
  readonly over?: readonly string[];
}

interface OpenCallsDeps {
  readonly bus: Pick<Bus, 'peer' | 'publish' | 'subscribe'>;
  readonly wire: Wire;
  readonly clock: Clock;
  readonly cluster: {
    readonly peers: Pick<Cluster['peers'], 'others'>;
    readonly loop: Pick<Cluster['loop'], 'stoodStill'>;
  };
}

/**
 * Which public calls are open, and at which node: so that the death of a node leaves no caller without an answer. NATS
 * brings each request to one node of the queue group, which runs it, and to all others as witnesses. Nodes repeat what they
 * have in hand; the first witness answers what no node has in hand for 1.5 s (decision 048). Nothing is written, and nothing
 * waits for another node.
 */
export class OpenCalls {
  readonly #deps: OpenCallsDeps;
  readonly #post: AnswerPost;
  readonly #open = new Map<string, OpenCall>();
  readonly #passed = new Map<string, PassedCall>();
  /** Reply subjects of calls that were answered. */
  #over = new LruMap<true>(MAX_OVER);
  /** What is sent with the next tick. */
  #news: Partial<Record<keyof CallNews, string[]>> = {};
  /** Answers that wait until it is known whether another node was first. */
  #late: Answer[] = [];
  #connectedAt = Number.NEGATIVE_INFINITY;
  #heldAt = Number.NEGATIVE_INFINITY;
  /** What NATS had for this node then has come: it answered a ping of that time. */
  #heardAllAt = Number.NEGATIVE_INFINITY;
  #tickedAt = 0;
  #ticking = false;
  #hadPeers = false;

  constructor(deps: OpenCallsDeps) {
    const { bus, wire, clock } = deps;
    this.#deps = deps;
    this.#post = new AnswerPost(wire, clock, bus.peer, (reply) => this.#taken(reply));
    bus.subscribe(SUBJECT, (payload, from) => {
      if (from !== bus.peer) this.#heard(unpackFrame<CallNews>(payload).header, from);
    });
    wire.onChange((change) => {
      if (change.type === 'connected') this.#connected();
      else if (change.type === 'disconnected') this.#disconnected();
    });
  }

  /** Where this node stands among those that witness calls. Null: a node of an earlier version does not say what it has. */
  get #rank(): number | null {
    let rank = 0;
    for (const { peer, publicCalls } of this.#deps.cluster.peers.others()) {
      if (publicCalls === undefined) return null;
      if (publicCalls && peer < this.#deps.bus.peer) rank++;
    }
    return rank;
  }

  /** Whether other nodes can have answered calls of this node without its having heard of it. */
  get #unsettled(): boolean {
    const { wire, clock, cluster } = this.#deps;
    // What happened while this process stood still is heard within that time.
    return !wire.connected || clock.now() - this.#connectedAt < SETTLE_MS || cluster.loop.stoodStill(SETTLE_MS);
  }

  /** A request has come, to this node or to another. */
  seen(reply: string, orphaned: WhenOrphaned): void {
    const call = this.#of(reply);
    call.orphaned = orphaned;
    call.requests++;
    if (call.requests > 0) this.#over.delete(reply);
    this.#forgetEnded(reply, call);
  }

  /** Calls that this node has in hand. */
  get inHand(): number {
    let count = 0;
    for (const { held } of this.#open.values()) count += held;
    return count;
  }

  /** This node has the call in hand. Null: it may begin. Resolves with false where another node has answered it meanwhile. */
  take(reply: string): Promise<boolean> | null {
    const call = this.#of(reply);
    call.held++;
    // What was sent to this process while it stood still comes all at once when it moves again.
    return this.#unsettled ? this.#confirmed(reply, call) : null;
  }

  async #confirmed(reply: string, call: OpenCall): Promise<boolean> {
    this.#tell('held', reply);
    await pause(this.#deps.clock, SETTLE_MS);
    if (call.lost) this.#drop(reply, call);
    return !call.lost;
  }

  /** Ends what this node has in hand. */
  answer(reply: string, answer: Buffer): void {
    const call = this.#open.get(reply);
    if (this.#unsettled) this.#late.push({ reply, answer });
    else if (call?.lost === true) this.#drop(reply, call);
    else this.#deliver(reply, answer);
  }

  /** A call that the node `by` took runs here. The returned function hears the answer; null where it was not begun here. */
  passed(reply: string, by: string): (answer: Buffer | null) => void {
    const passed: PassedCall = { by, endedAt: 0, answer: null, adopted: false };
    this.#passed.set(reply, passed);
    this.#arm();
    return (answer) => {
      passed.endedAt = this.#deps.clock.now();
      passed.answer = answer;
      if (passed.adopted) this.#end(reply, answer);
      else if (answer === null && this.#passed.get(reply) === passed) this.#passed.delete(reply);
    };
  }

  /** The node that took it is gone: from now on it is this node's call. */
  #adopt(reply: string, passed: PassedCall): void {
    this.#passed.delete(reply);
    passed.adopted = true;
    const call = this.#of(reply);
    call.adopted = true;
    call.held++;
    this.#tell('adopted', reply);
    if (passed.endedAt > 0) this.#end(reply, passed.answer);
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

  /** The call stays in hand until NATS has confirmed the answer. */
  #deliver(reply: string, answer: Buffer): void {
    const call = this.#of(reply);
    call.sent++;
    call.sentAt = this.#deps.clock.now();
    this.#post.publish(reply, answer);
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
    this.#tell('answered', reply);
  }

  /** Another node answers a call whose answer from here waits for its receiver. */
  #taken(reply: string): boolean {
    const call = this.#open.get(reply);
    if (call?.lost !== true) return false;
    call.sent--;
    this.#drop(reply, call);
    return true;
  }

  /** This node does not answer what it had in hand. */
  #drop(reply: string, call: OpenCall): void {
    call.held--;
    this.#forgetEnded(reply, call);
  }

  #answered(reply: string, call: OpenCall): void {
    call.requests--;
    if (call.requests <= 0) this.#over.set(reply, true);
    this.#passed.delete(reply);
    this.#forgetEnded(reply, call);
  }

  #forgetEnded(reply: string, call: OpenCall): void {
    if (call.held === 0 && (call.requests === 0 || call.lost)) this.#open.delete(reply);
  }

  #heard(news: CallNews, from: string): void {
    this.#hadPeers = true;
    const now = this.#deps.clock.now();
    for (const reply of news.answered ?? []) {
      const call = this.#of(reply);
      this.#answered(reply, call);
      if (call.requests < call.held) call.lost = true;
    }
    for (const reply of news.over ?? []) this.#endedElsewhere(reply);
    for (const reply of news.adopted ?? []) {
      const call = this.#open.get(reply);
      // Of two that adopt a call at the same time, one answers it.
      if (call !== undefined && call.held > 0) call.lost = !call.adopted || from < this.#deps.bus.peer;
    }
    for (const reply of [...(news.held ?? []), ...(news.adopted ?? [])]) {
      const call = this.#open.get(reply);
      if (this.#isOver(reply)) this.#tell('over', reply);
      else if (call !== undefined) Object.assign(call, { heardAt: now, known: true, asked: false });
    }
    for (const reply of news.held ?? []) if (this.#open.get(reply)?.adopted === true) this.#tell('adopted', reply);
    for (const reply of news.asked ?? []) if (this.#isOver(reply)) this.#tell('over', reply);
    if (this.#news.over !== undefined || this.#news.adopted !== undefined) this.#flush();
  }

  #isOver(reply: string): boolean {
    const call = this.#open.get(reply);
    return this.#over.peek(reply) === true && (call === undefined || (call.held === 0 && call.requests <= 0));
  }

  #endedElsewhere(reply: string): void {
    this.#over.set(reply, true);
    this.#passed.delete(reply);
    const call = this.#open.get(reply);
    if (call === undefined) return;
    call.lost = true;
    this.#forgetEnded(reply, call);
  }

  /** Unconfirmed answers may be lost. They are sent again, unless another node has answered meanwhile. */
  #disconnected(): void {
    const lost = this.#post.takeBack();
    for (const { reply } of lost) this.#of(reply).sent--;
    this.#late.push(...lost);
  }

  /** This node missed what peers said meanwhile. A peer that was not connected either is not late. */
  #connected(): void {
    const now = this.#deps.clock.now();
    this.#connectedAt = now;
    this.#heldAt = Number.NEGATIVE_INFINITY;
    this.#over = new LruMap(MAX_OVER);
    for (const [reply, call] of this.#open) {
      Object.assign(call, { heardAt: now, asked: false });
      if (call.held === 0) this.#tell('asked', reply);
    }
    for (const reply of this.#passed.keys()) this.#tell('asked', reply);
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
    // What could not be heard while this process stood still, or had no connection, does not count.
    const unheardMs = wire.connected ? (late > STALL_MS ? late : 0) : now - this.#tickedAt;
    for (const call of this.#open.values()) call.heardAt = Math.min(now, call.heardAt + unheardMs);
    if (wire.connected) {
      if (!this.#unsettled) {
        const answers = this.#late;
        this.#late = [];
        for (const { reply, answer } of answers) this.answer(reply, answer);
      }
      this.#look(now);
      this.#flush();
      void this.#post.confirmed().then((answers) => {
        for (const answer of answers) this.#delivered(answer);
        if (answers.length > 0) this.#flush();
      });
    }
    if (this.#open.size + this.#passed.size > 0 || Object.keys(this.#news).length > 0) this.#arm();
  }

  #look(now: number): void {
    const rank = this.#rank;
    const tellsHeld = now - this.#heldAt >= HELD_EVERY_MS - TICK_MS / 2;
    if (tellsHeld) this.#heldAt = now;
    let asks = false;
    const others = new Set<string>();
    for (const { peer } of this.#deps.cluster.peers.others()) others.add(peer);
    for (const [reply, passed] of [...this.#passed]) {
      if (!others.has(passed.by)) this.#adopt(reply, passed);
      else if (tellsHeld) this.#tell('held', reply);
    }
    for (const [reply, call] of [...this.#open]) {
      if (call.held > 0) {
        call.heardAt = now;
        // An answer just sent is confirmed in a moment, unless it waits for its receiver.
        if (tellsHeld && (call.held > call.sent || now - call.sentAt > TICK_MS)) this.#tell('held', reply);
        continue;
      }
      const silentMs = now - call.heardAt;
      const heardMs = this.#heardAllAt - call.heardAt;
      if (call.requests <= 0) {
        if (silentMs >= REQUEST_LATE_MS) this.#open.delete(reply);
      } else if (silentMs >= ORPHAN_MS + RANK_MS * (rank ?? 0) && heardMs >= ASK_MS) {
        this.#orphan(reply, call, rank !== null);
      } else if (silentMs >= ASK_MS) {
        asks ||= heardMs < ASK_MS;
        if (!call.asked) this.#tell('asked', reply);
        call.asked = true;
      }
    }
    if (asks) this.#ping(now);
  }

  /** A connection may be dead before this node notices: then it hears no other node, and must not judge any. */
  #ping(now: number): void {
    const answered = (): void => {
      this.#heardAllAt = Math.max(this.#heardAllAt, now);
    };
    void this.#deps.wire.flush().then(answered, () => {});
  }

  /** `allTell`: a node that has it in hand would have said so. */
  #orphan(reply: string, call: OpenCall, allTell: boolean): void {
    if (this.#passed.has(reply)) return;
    if (!call.known && !allTell) {
      this.#open.delete(reply);
      this.#over.set(reply, true);
      return;
    }
    call.adopted = true;
    this.#tell('adopted', reply);
    const { orphaned, requests } = call;
    for (let i = 0; i < requests; i++) {
      if (typeof orphaned === 'function') orphaned();
      else {
        call.held++;
        this.#deliver(reply, orphaned);
      }
    }
  }

  #tell(kind: keyof CallNews, reply: string): void {
    (this.#news[kind] ??= []).push(reply);
  }

  #flush(): void {
    const kinds = Object.entries(this.#news);
    this.#news = {};
    // Who was cut off has to ask before heartbeats say who is there.
    this.#hadPeers ||= this.#deps.cluster.peers.others()[Symbol.iterator]().next().done !== true;
    if (!this.#hadPeers) return;
    const most = Math.max(0, ...kinds.map(([, replies]) => replies.length));
    for (let at = 0; at < most; at += MAX_PER_MESSAGE) {
      const part: CallNews = Object.fromEntries(
        kinds.map(([kind, replies]) => [kind, replies.slice(at, at + MAX_PER_MESSAGE)]),
      );
      this.#deps.bus.publish(SUBJECT, packFrame(part));
    }
  }
}
