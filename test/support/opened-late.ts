import type { Bucket } from '../../src/bus/shared-state.ts';

/** A bucket that is opened at its first use, after a failure, and when its incarnation is read, like a bucket of NATS. */
export function openedLate(name: string, open: () => Promise<Omit<Bucket, 'readIncarnation'>>): Bucket {
  let opening: ReturnType<typeof open> | null = null;
  let incarnation = '';
  const use = async (work: (bucket: Omit<Bucket, 'readIncarnation'>) => unknown): Promise<unknown> => {
    opening ??= open();
    const opened = opening;
    try {
      const bucket = await opened;
      incarnation = bucket.incarnation;
      return await work(bucket);
    } catch (error) {
      if (opening === opened) opening = null;
      throw error;
    }
  };
  const readIncarnation = (): unknown => {
    opening = null;
    return use((bucket) => bucket.incarnation);
  };
  return new Proxy({} as Bucket, {
    get(own, member: Exclude<keyof Bucket, 'readIncarnation'>) {
      if (member in own) return own[member];
      if (member === 'name') return name;
      if (member === 'incarnation') return incarnation;
      if ((member as string) === 'readIncarnation') return readIncarnation;
      if ((member as string) === 'then') return undefined;
      return (...asked: unknown[]) => use((bucket) => Reflect.apply(bucket[member], bucket, asked));
    },
  });
}
