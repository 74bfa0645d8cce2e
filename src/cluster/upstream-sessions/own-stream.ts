import type { SessionMember } from '../../model/shared-upstream-sessions.ts';

/** A session of a server's that no other node can use. */
export interface OwnStream {
  /** How far its stream was heard; null where that is not known, undefined before anybody has listened. */
  heard?: string | null;
}

/**
 * Nobody else can listen to it, so no claim is needed: whoever has the connection listens, and goes on where the one before
 * it ended. The returned function: not any more.
 */
export function listenAlone(stream: OwnStream, member: SessionMember): () => void {
  let left = false;
  // The member may not be complete yet.
  queueMicrotask(() => {
    if (left) return;
    const { heard } = stream;
    stream.heard = null;
    member.listen(heard ?? null, heard === null);
  });
  return () => {
    if (left) return;
    left = true;
    const heard = member.silence();
    if (stream.heard !== undefined) stream.heard = heard;
  };
}
