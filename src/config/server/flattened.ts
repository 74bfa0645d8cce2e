import type { Member, ObjectNode } from '../document/node.ts';

/** Moves members of inner objects of some clients up: Continue's `transport` and `requestOptions`, Zed's `command`. */
export function flattened(node: ObjectNode): ObjectNode {
  const members: Member[] = [];
  for (const member of node.members) {
    const { key, value } = member;
    if (value.kind === 'object' && key === 'transport') members.push(...value.members);
    else if (value.kind === 'object' && key === 'requestOptions') {
      members.push(...value.members.filter((inner) => inner.key === 'headers'));
    } else if (value.kind === 'object' && key === 'command') {
      members.push(...value.members.map((inner) => (inner.key === 'path' ? { ...inner, key: 'command' } : inner)));
    } else members.push(member);
  }
  return { kind: 'object', span: node.span, members };
}
