import { overThreeNodes } from './over-three-nodes.ts';

overThreeNodes(['2025-11-25', '2026-07-28']);
