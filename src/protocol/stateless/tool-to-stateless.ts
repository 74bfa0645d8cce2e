import { removeMember, splice } from '../splice.ts';

/** A stateful server's tool for stateless clients: without `execution`, whose tasks 2026-07-28 has in another form. */
export function toolToStateless(tool: Buffer): Buffer {
  if (!tool.includes('execution')) return tool;
  const edit = removeMember(tool, { start: 0, end: tool.length }, 'execution');
  return edit === null ? tool : splice(tool, [edit]);
}
