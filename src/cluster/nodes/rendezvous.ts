/** Rendezvous hashing: every node with the same peers chooses the same one; if a peer leaves, only its ids move. */
export function rendezvous(id: string, peers: Iterable<string>): string | null {
  let chosen: string | null = null;
  let most = -1;
  for (const peer of peers) {
    const weight = weightOf(id, peer);
    if (weight < most || (weight === most && peer > chosen!)) continue;
    chosen = peer;
    most = weight;
  }
  return chosen;
}

/** FNV-1a, mixed as in MurmurHash3: ids and peers may differ in their last character only. */
function weightOf(id: string, peer: string): number {
  let hash = 0x811c9dc5;
  for (const text of [id, peer]) {
    for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
