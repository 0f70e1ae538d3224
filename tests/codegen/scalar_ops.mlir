// Every scalar operation that has a spelling, on vectors (in a kernel) and on scalars (between statements).
!f = !kernel.buffer<64xf32>
!i = !kernel.buffer<64xi32>
!m = !kernel.buffer<64xi1>

kernel.program @scalars target(<"cpu", "x86-64-v3">) {
  kernel.queue @team backend("cpu")
  kernel.run (%a "a": !f, %b "b": !f, %k "k": !i, %m "m": !m) outs(%x "x": !f, %y "y": !i, %z "z": !m) {
    kernel.launch @all(%a, %b, %k, %m) outs(%x, %y, %z) on @team : (!f, !f, !i, !m) -> (!f, !i, !m)
    %zero = arith.constant 0 : index
    %first = kernel.load %k[%zero] : !i -> i32
    %wide = arith.extsi %first : i32 to i64
    %at = arith.index_cast %wide : i64 to index
    %sixty = arith.constant 60 : index
    %clamped = arith.minsi %at, %sixty : index
    %low = arith.maxsi %clamped, %zero : index
    %tail = kernel.view %a offset(at) [at = %low] : !f -> !kernel.buffer<4xf32>
    %there = kernel.view %x offset(at * 1 + 0) [at = %low] : !f -> !kernel.buffer<4xf32>
    kernel.copy %tail to %there on @team : !kernel.buffer<4xf32> to !kernel.buffer<4xf32>
    kernel.return %x, %y, %z : !f, !i, !m
  }
}

kernel.func @all(!f, !f, !i, !m) outs(!f, !i, !m)
    schedule(<"pointwise", shape = {extent = [64], stride = [[1], [1], [1], [1], [1], [1], [1]]},
              tune = {rank = 1, inputs = 4}>) ties([]) can_fail
    lambda body(%a: f32, %b: f32, %k: i32, %m: i1) {
  %true = arith.constant true
  %nan = arith.constant 0x7FC00000 : f32
  %big = arith.constant 3.4028234663852886e+38 : f32
  %v0 = math.absf %a : f32
  %v1 = math.exp %v0 : f32
  %v2 = math.exp2 %v1 : f32
  %v3 = math.expm1 %v2 : f32
  %v4 = math.log %v3 : f32
  %v5 = math.log2 %v4 : f32
  %v6 = math.log1p %v5 : f32
  %v7 = math.sqrt %v6 : f32
  %v8 = math.rsqrt %v7 : f32
  %v9 = math.sin %v8 : f32
  %v10 = math.cos %v9 : f32
  %v11 = math.tan %v10 : f32
  %v12 = math.tanh %v11 : f32
  %v13 = math.erf %v12 : f32
  %v14 = math.floor %v13 : f32
  %v15 = math.ceil %v14 : f32
  %v16 = math.trunc %v15 : f32
  %v17 = math.roundeven %v16 : f32
  %v18 = arith.addf %v17, %b : f32
  %v19 = arith.subf %v18, %b : f32
  %v20 = arith.mulf %v19, %b : f32
  %v21 = arith.divf %v20, %b : f32
  %v22 = arith.maximumf %v21, %b : f32
  %v23 = arith.minimumf %v22, %b : f32
  %v24 = arith.maxnumf %v23, %b : f32
  %v25 = arith.minnumf %v24, %b : f32
  %v26 = arith.remf %v25, %b : f32
  %v27 = math.powf %v26, %b : f32
  %v28 = math.atan2 %v27, %b : f32
  %v29 = math.copysign %v28, %b : f32
  %v30 = math.fma %v29, %a, %b : f32
  %v31 = math.clampf %v30 to [%a, %b] : f32
  %v32 = math.fpowi %v31, %k : f32, i32
  %v33 = arith.negf %v32 : f32
  %v34 = arith.cmpf oeq, %v33, %b : f32
  %v35 = arith.cmpf ogt, %v33, %b : f32
  %v36 = arith.cmpf oge, %v33, %b : f32
  %v37 = arith.cmpf olt, %v33, %b : f32
  %v38 = arith.cmpf ole, %v33, %b : f32
  %v39 = arith.cmpf one, %v33, %b : f32
  %v40 = arith.cmpf ord, %v33, %b : f32
  %v41 = arith.cmpf ueq, %v33, %b : f32
  %v42 = arith.cmpf ugt, %v33, %b : f32
  %v43 = arith.cmpf uge, %v33, %b : f32
  %v44 = arith.cmpf ult, %v33, %b : f32
  %v45 = arith.cmpf ule, %v33, %b : f32
  %v46 = arith.cmpf une, %v33, %b : f32
  %v47 = arith.cmpf uno, %v33, %b : f32
  %v48 = arith.cmpf false, %v33, %b : f32
  %v49 = arith.cmpf true, %v33, %b : f32
  %v50 = math.isnan %v33 : f32
  %v51 = math.isinf %v33 : f32
  %v52 = math.isfinite %v33 : f32
  %v53 = arith.addi %k, %k : i32
  %v54 = arith.subi %v53, %k : i32
  %v55 = arith.muli %v54, %k : i32
  %v56 = arith.divsi %v55, %k : i32
  %v57 = arith.floordivsi %v56, %k : i32
  %v58 = arith.remsi %v57, %k : i32
  %v59 = arith.divui %v58, %k : i32
  %v60 = arith.remui %v59, %k : i32
  %v61 = arith.maxsi %v60, %k : i32
  %v62 = arith.minsi %v61, %k : i32
  %v63 = arith.maxui %v62, %k : i32
  %v64 = arith.minui %v63, %k : i32
  %v65 = arith.andi %v64, %k : i32
  %v66 = arith.ori %v65, %k : i32
  %v67 = arith.xori %v66, %k : i32
  %v68 = arith.shli %v67, %k : i32
  %v69 = arith.shrsi %v68, %k : i32
  %v70 = arith.shrui %v69, %k : i32
  %v71 = math.absi %v70 : i32
  %v72 = math.ipowi %v71, %k : i32
  %v73 = arith.cmpi eq, %v72, %k : i32
  %v74 = arith.cmpi ne, %v72, %k : i32
  %v75 = arith.cmpi slt, %v72, %k : i32
  %v76 = arith.cmpi sle, %v72, %k : i32
  %v77 = arith.cmpi sgt, %v72, %k : i32
  %v78 = arith.cmpi sge, %v72, %k : i32
  %v79 = arith.cmpi ult, %v72, %k : i32
  %v80 = arith.cmpi ule, %v72, %k : i32
  %v81 = arith.cmpi ugt, %v72, %k : i32
  %v82 = arith.cmpi uge, %v72, %k : i32
  %v83 = arith.andi %v34, %v35 : i1
  %v84 = arith.ori %v83, %v36 : i1
  %v85 = arith.xori %v84, %v37 : i1
  %v86 = arith.andi %v85, %v38 : i1
  %v87 = arith.ori %v86, %v39 : i1
  %v88 = arith.xori %v87, %v40 : i1
  %v89 = arith.andi %v88, %v41 : i1
  %v90 = arith.ori %v89, %v42 : i1
  %v91 = arith.xori %v90, %v43 : i1
  %v92 = arith.andi %v91, %v44 : i1
  %v93 = arith.ori %v92, %v45 : i1
  %v94 = arith.xori %v93, %v46 : i1
  %v95 = arith.andi %v94, %v47 : i1
  %v96 = arith.ori %v95, %v48 : i1
  %v97 = arith.xori %v96, %v49 : i1
  %v98 = arith.andi %v97, %v50 : i1
  %v99 = arith.ori %v98, %v51 : i1
  %v100 = arith.xori %v99, %v52 : i1
  %v101 = arith.andi %v100, %v73 : i1
  %v102 = arith.ori %v101, %v74 : i1
  %v103 = arith.xori %v102, %v75 : i1
  %v104 = arith.andi %v103, %v76 : i1
  %v105 = arith.ori %v104, %v77 : i1
  %v106 = arith.xori %v105, %v78 : i1
  %v107 = arith.andi %v106, %v79 : i1
  %v108 = arith.ori %v107, %v80 : i1
  %v109 = arith.xori %v108, %v81 : i1
  %v110 = arith.andi %v109, %v82 : i1
  %v111 = arith.select %v110, %true, %m : i1
  %v112 = arith.sitofp %v72 : i32 to f32
  %v113 = arith.uitofp %v111 : i1 to f32
  %v114 = arith.sitofp %v111 : i1 to f32
  %v115 = arith.fptosi %v33 : f32 to i32
  %v116 = arith.extui %v111 : i1 to i32
  %v117 = arith.extsi %v111 : i1 to i32
  %v118 = arith.extsi %v115 : i32 to i64
  %v119 = arith.trunci %v118 : i64 to i32
  %v120 = arith.trunci %v119 : i32 to i1
  %v121 = arith.extf %v112 : f32 to f64
  %v122 = math.tanh %v121 : f64
  %v123 = arith.truncf %v122 : f64 to f32
  %v124 = arith.bitcast %v123 : f32 to i32
  %v125 = arith.bitcast %v124 : i32 to f32
  %v126 = arith.truncf %v125 : f32 to f16
  %v127 = arith.extf %v126 : f16 to f32
  %v128 = arith.addf %v113, %v114 : f32
  %v129 = arith.addf %v128, %v127 : f32
  %v130 = arith.addf %v129, %nan : f32
  %v131 = arith.select %v120, %v130, %big : f32
  %v132 = arith.addi %v116, %v117 : i32
  %v133 = arith.addi %v132, %v119 : i32
  kernel.yield %v131, %v133, %v120 : f32, i32, i1
}
