/** The desired state that the steps produce. */
export interface Desire {
  readonly servers: Map<string, string>;
  readonly suspended: Set<string>;
}

export interface Step {
  readonly kind: 'add' | 'change' | 'suspend' | 'remove';
  readonly name: string;
  /** The definition that it writes; sometimes long enough to need database pages of its own. */
  readonly text: string;
}

export const STEPS = 60;

/** Step `i` of a sequence of changes in which every kind occurs: of five, two add, and the last removes two records at once. */
export function stepOf(i: number): Step {
  const first = i - (i % 5);
  const text = JSON.stringify({ url: `http://host-${i}.example.com/`, description: 'x'.repeat((i * 397) % 3_000) });
  switch (i % 5) {
    case 0:
      return { kind: 'add', name: `s${first}`, text };
    case 1:
      return { kind: 'change', name: `s${first}`, text };
    case 2:
      return { kind: 'suspend', name: `s${first}`, text };
    case 3:
      return { kind: 'add', name: `t${first}`, text };
    default:
      return { kind: 'remove', name: `s${first}`, text };
  }
}

/** The desired state after the first `count` steps. */
export function desireAfter(count: number): Desire {
  const servers = new Map<string, string>();
  const suspended = new Set<string>();
  for (let i = 0; i < count; i++) {
    const { kind, name, text } = stepOf(i);
    if (kind === 'suspend') suspended.add(name);
    else if (kind === 'remove') {
      servers.delete(name);
      suspended.delete(name);
    } else servers.set(name, text);
  }
  return { servers, suspended };
}
