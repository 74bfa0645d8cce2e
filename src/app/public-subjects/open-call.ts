const NOTHING = (): void => {};

/** What becomes of a call that no node has in hand any more: it is answered so, or run again where that is safe. */
export type WhenOrphaned = Buffer | (() => void);

/** The calls on one reply subject. A program may use one subject for several. */
export class OpenCall {
  /** Requests that came, less those that were answered. Below 0: the answer was heard of first. */
  requests = 0;
  /** How many of them this node has in hand. */
  held = 0;
  /** How many of these this node has answered, and NATS has not confirmed. */
  sent = 0;
  /** When it last did. */
  sentAt = 0;
  /** This node has them from one that is gone. */
  adopted = false;
  /** Another node answers, or has answered, what this node has in hand. */
  lost = false;
  heardAt: number;
  /** Some node has said that it has it in hand. */
  known = false;
  asked = false;
  orphaned: WhenOrphaned = NOTHING;

  constructor(heardAt: number) {
    this.heardAt = heardAt;
  }
}

/** A call that another node took, and that runs at this one. */
export interface PassedCall {
  readonly by: string;
  /** 0 while it runs. */
  endedAt: number;
  /** Null: it was not begun here. */
  answer: Buffer | null;
  /** The node that took it is gone, and this one answers. */
  adopted: boolean;
}
